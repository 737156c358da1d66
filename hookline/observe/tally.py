"""What this process has done since it started: one method for each stage of the flow, called by the batch.

The numbers are what `/metrics` shows and what pulses are made of. Labels are words of ours, never a URL or an id; event types
are named up to a bound and are `other` beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from hookline.clock import monotonic
from hookline.model import (
    ClaimBatch,
    Dead,
    Delivered,
    LaneEvent,
    RecordReport,
    RelayReport,
    Result,
    Retry,
    SweepReport,
)
from hookline.model.activity import ALL, Did
from hookline.model.states import ErrorKind, Reason
from hookline.observe.meters import OUTCOMES, Meters

MAX_EVENT_TYPES = 50
OTHER = "other"
MAX_ENDPOINTS = 2_000  # that one pulse tells apart

_Kind = tuple[type, int | None, ErrorKind | None, str]  # of results: the verdict, the answer, the event type


def result_class(status: int | None, error: ErrorKind | None) -> str:
    """`2xx` ... `5xx`, or what kept an answer from coming."""
    if status is None:
        return "none" if error is None else error.value
    return f"{status // 100}xx" if 100 <= status <= 599 else "odd"


def kept(batch: Sequence[Result], report: RecordReport) -> Sequence[Result]:
    """Without those of lost leases: somebody else has the delivery, and tells what becomes of it.

    Where a COMMIT's answer was lost its results come again as such, and are not counted at all.
    """
    if not report.lost:
        return batch
    lost = frozenset(report.lost)
    return [result for result in batch if result.attempt_id not in lost]


class Names:
    """The first so many names as they are; the rest share one, so that nobody's choice of names can fill a database."""

    def __init__(self, most: int = MAX_EVENT_TYPES) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) < self._most:
            self._known.add(name)
            return name
        return OTHER


class Tally(Meters):
    def __init__(self, *, event_types: int = MAX_EVENT_TYPES) -> None:
        super().__init__()
        self._event_type = Names(event_types)
        self.did: Did = {}  # since the last pulse
        self.in_flight = 0  # requests, now
        self.slots = 0
        self._behind: dict[str, float] = {}  # applications' outboxes: when each was last empty

    # ── the flow, left to right ──

    def ingested(self, messages: int, seconds: float) -> None:
        self.accepted.add(messages, "api")
        self.ingest_size.observe(messages)
        self.ingest_seconds.observe(seconds)

    def moved(self, report: RelayReport) -> None:
        """By the relay."""
        self.accepted.add(report.relayed, "outbox")
        self.relayed.add(report.relayed, "relayed")
        self.relayed.add(report.repeated, "repeated")
        self.relayed.add(report.set_aside, "set_aside")

    def fell_behind(self, outbox: str, emptied_at: float) -> None:
        """More may wait in it, since a monotonic instant at the earliest."""
        self._behind.setdefault(outbox, emptied_at)

    def caught_up(self, outbox: str) -> None:
        self._behind.pop(outbox, None)

    def outbox_lag(self) -> float:
        """Seconds that a row of an application's outbox waits at the most."""
        return monotonic() - min(self._behind.values()) if self._behind else 0.0

    def claimed(self, batch: ClaimBatch, seconds: float) -> None:
        """Only of those that found something: an idle worker's looks would drown them."""
        if batch.jobs:
            self.claim_size.observe(len(batch.jobs))
            self.claim_seconds.observe(seconds)

    def recorded(self, batch: Sequence[Result], report: RecordReport, seconds: float) -> None:
        self.record_size.observe(len(batch))
        self.record_seconds.observe(seconds)
        self.stale.add(report.stale)
        self._tell(kept(batch, report))
        self.changed(report.events)

    def changed(self, events: Iterable[LaneEvent]) -> None:
        """Of lanes and endpoints."""
        for event in events:
            self.lane_events.add(1, event.kind.value)

    def swept(self, report: SweepReport) -> None:
        self.leases.add(report.leases)
        self.repaired.add(report.repaired)
        self.dead.add(report.expired, Reason.BUDGET_EXHAUSTED.value)
        self.dead.add(report.deleted, Reason.ENDPOINT_DELETED.value)
        self.changed(report.events)

    def refused(self, where: str) -> None:
        self.refusals.add(1, where)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self.api_seconds.observe(seconds, method, route, f"{status // 100}xx")

    def stranger(self, status: int) -> None:
        """Somebody came with a token or key that is no good, and was answered so."""
        self.bad_tokens.add(1, str(status))

    # ── one batch of outcomes: looked at once, and what is alike is counted and timed together, for most of a batch is ──

    def _tell(self, batch: Sequence[Result]) -> None:
        alike: dict[_Kind, list[Result]] = {}
        for result in batch:
            job, sent, verdict = result.job, result.sent, type(result.judgement.verdict)
            self._row(job.app_no, job.endpoint_no)[_PLACES[verdict]] += 1
            alike.setdefault((verdict, sent.status, sent.error, job.event_type), []).append(result)
        for (verdict, status, error, event_type), results in alike.items():
            outcome = _OUTCOMES[verdict]
            self.attempts.add(len(results), outcome, result_class(status, error))
            if error == ErrorKind.BLOCKED:
                self.refusals.add(len(results), "dialled")
            self._time(outcome, self._event_type(event_type), results)
            if outcome == "retry":
                self._put_off(results)
            elif outcome == "dead":
                self._died(results)

    def _row(self, app_no: int, endpoint_no: int) -> list[int]:
        """Of very many endpoints the last ones are counted together, by application."""
        held = self.did.get((app_no, endpoint_no))
        if held is None:
            key = (app_no, endpoint_no if len(self.did) < MAX_ENDPOINTS else ALL)
            held = self.did.setdefault(key, [0, 0, 0])
        return held

    def _time(self, outcome: str, event_type: str, results: Sequence[Result]) -> None:
        took: list[float] = []
        lags: list[float] = []
        first: list[float] = []  # of these, the lags of first attempts
        since: list[float] = []  # they were accepted
        used: list[float] = []
        for result in results:
            job, seconds, ended_at = result.job, result.sent.timing.total / 1e6, result.ended_at
            took.append(seconds)
            used.append(job.sent + 1.0)
            if ended_at is None:
                continue
            since.append(max(0.0, (ended_at - job.accepted_at).total_seconds()))
            if not job.counted:  # a limited lane is late because it is told to be
                lag = max(0.0, (ended_at - (result.ready_at or job.due_at)).total_seconds() - seconds)
                (lags if job.sent else first).append(lag)
        self.attempt_seconds.observe_all(took, outcome, event_type)
        self.first_latency.observe_all(first)
        self.lag.observe_all(lags + first, event_type)
        self.retries.add(sum(1 for number in used if number > 1), outcome)
        if outcome != "retry":
            self.used.observe_all(used, outcome)
        if outcome == "delivered":
            self.latency.observe_all(since, event_type)

    def _put_off(self, results: Sequence[Result]) -> None:
        for each in results:
            verdict = each.judgement.verdict
            assert isinstance(verdict, Retry)
            if not each.job.probe:  # due at once, and held by its circuit
                self.retry_delay.observe(max(0.0, _until(verdict.at, each.ended_at)))
            self.last_attempts.add(float(each.last_left))

    def _died(self, results: Sequence[Result]) -> None:
        for each in results:
            verdict = each.judgement.verdict
            assert isinstance(verdict, Dead)
            self.dead.add(1, verdict.reason.value)


def _until(at: datetime, ended_at: datetime | None) -> float:
    return 0.0 if ended_at is None else (at - ended_at).total_seconds()


_OUTCOMES: dict[type, str] = dict(zip((Delivered, Retry, Dead), OUTCOMES, strict=True))
_PLACES: dict[type, int] = {Delivered: 0, Retry: 1, Dead: 2}  # in a row of `Did`
