"""Counters of this process since it started. Each stage of the flow calls one method per batch.

`/metrics` and pulses show these numbers. The values of a label are few, and never a URL or an id. The first event types
that the process sees have label values of their own. All others share the value `other` (see `Names`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hookline.clock import monotonic
from hookline.model.activity import ALL, AttemptCounts
from hookline.model.deliveries import ClaimBatch
from hookline.model.lanes import LaneEvent
from hookline.model.outbox import RelayReport
from hookline.model.states import ErrorKind
from hookline.model.sweep import Death, SweepReport
from hookline.model.verdicts import OUTCOMES, Dead, Delivered, RecordReport, Result, Retry
from hookline.observe.meters import Meters

MAX_EVENT_TYPES = 50
OTHER = "other"
MAX_ENDPOINTS = 2_000  # endpoints with counts of their own in one pulse; the attempts of further endpoints are summed

_Kind = tuple[type, int | None, ErrorKind | None, str]  # verdict, status, error and event type of a result


def result_class(status: int | None, error: ErrorKind | None) -> str:
    """Return `2xx` ... `5xx`, or the error if there was no response."""
    if status is None:
        return "none" if error is None else error.value
    return f"{status // 100}xx" if 100 <= status <= 599 else "odd"


def kept(batch: Sequence[Result], report: RecordReport) -> Sequence[Result]:
    """Return the results without those whose lease was lost. Another worker has the delivery of such
    a result now, and will count its attempt.

    If the database's answer to a COMMIT is lost, this worker records the same results again. They then look as if their
    leases were lost, and are not counted at all.
    """
    if not report.lost:
        return batch
    lost = frozenset(report.lost)
    return [result for result in batch if result.attempt_id not in lost]


class Names:
    """Returns a name unchanged if it is one of the first `limit` different names since the start of the process.
    Returns `other` for all further names, so that tenants cannot create too many series."""

    def __init__(self, limit: int = MAX_EVENT_TYPES) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        if len(self._known) < self._limit:
            self._known.add(name)
        return name if name in self._known else OTHER


class Tally(Meters):
    def __init__(self, *, event_types: int = MAX_EVENT_TYPES) -> None:
        super().__init__()
        self._event_type = Names(event_types)
        self.attempt_counts: AttemptCounts = {}  # attempts since the last pulse
        self.in_flight = 0  # requests in flight now
        self.slots = 0
        # Outboxes that may have waiting rows, and when each was last empty, on the monotonic clock.
        self._behind: dict[str, float] = {}

    # ── stages, in the order of the flow ──

    def ingested(self, messages: int, seconds: float) -> None:
        self.accepted.add(messages, "api")
        self.ingest_size.observe(messages)
        self.ingest_seconds.observe(seconds)

    def moved(self, report: RelayReport) -> None:
        """Count the rows of one relay batch."""
        self.accepted.add(report.relayed, "outbox")
        self.relayed.add(report.relayed, "relayed")
        self.relayed.add(report.repeated, "repeated")
        self.relayed.add(report.set_aside, "set_aside")

    def fell_behind(self, outbox: str, emptied_at: float) -> None:
        """Note that an outbox may have waiting rows, none older than `emptied_at` on the monotonic clock."""
        self._behind.setdefault(outbox, emptied_at)

    def caught_up(self, outbox: str) -> None:
        self._behind.pop(outbox, None)

    def outbox_lag(self) -> float:
        """Return the longest time in seconds that a row of an application's outbox can have waited."""
        return monotonic() - min(self._behind.values()) if self._behind else 0.0

    def claimed(self, batch: ClaimBatch, seconds: float) -> None:
        """Count a claim that leased deliveries. Empty claims are left out, because an idle worker makes many of
        them."""
        if batch.jobs:
            self.claim_size.observe(len(batch.jobs))
            self.claim_seconds.observe(seconds)

    def recorded(self, batch: Sequence[Result], report: RecordReport, seconds: float) -> None:
        self.record_size.observe(len(batch))
        self.record_seconds.observe(seconds)
        self.stale.add(report.stale)
        self._count_results(kept(batch, report))
        self.changed(report.events)

    def changed(self, events: Iterable[LaneEvent]) -> None:
        """Count events of lanes and endpoints."""
        for event in events:
            self.lane_events.add(1, event.kind.value)

    def swept(self, report: SweepReport) -> None:
        self.leases.add(report.leases)
        self.repaired.add(report.repaired)
        self.died(report.deaths)
        self.changed(report.events)

    def died(self, deaths: Iterable[Death]) -> None:
        """Count deliveries that died while they waited."""
        for death in deaths:
            self.dead.add(1, death.reason.value)

    def refused(self, where: str) -> None:
        self.refusals.add(1, where)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self.api_seconds.observe(seconds, method, route, f"{status // 100}xx")

    def bad_credentials(self, status: int) -> None:
        """Count a request with an invalid token or key, and the status of its answer."""
        self.bad_tokens.add(1, str(status))

    # ── batches of outcomes: similar results are counted together, which is faster because most results are alike ──

    def _count_results(self, batch: Sequence[Result]) -> None:
        alike: dict[_Kind, list[Result]] = {}
        for result in batch:
            job, sent, verdict = result.job, result.sent, type(result.judgement.verdict)
            self._row(job.app_no, job.endpoint_no)[_POSITIONS[verdict]] += 1
            alike.setdefault((verdict, sent.status, sent.error, job.event_type), []).append(result)
        for (verdict, status, error, event_type), results in alike.items():
            outcome = OUTCOMES[verdict]
            self.attempts.add(len(results), outcome, result_class(status, error))
            if error == ErrorKind.BLOCKED:
                self.refusals.add(len(results), "dialled")
            self._time(outcome, self._event_type(event_type), results)
            if outcome == "retry":
                self._count_retries(results)
            elif outcome == "dead":
                self._count_deaths(results)

    def _row(self, app_no: int, endpoint_no: int) -> list[int]:
        """Return the list that counts the attempts of an endpoint.

        The first `MAX_ENDPOINTS` endpoints since the last pulse have a list each. All further endpoints of an
        application share one list.
        """
        row = self.attempt_counts.get((app_no, endpoint_no))
        if row is None:
            key = (app_no, endpoint_no if len(self.attempt_counts) < MAX_ENDPOINTS else ALL)
            row = self.attempt_counts.setdefault(key, [0, 0, 0])
        return row

    def _time(self, outcome: str, event_type: str, results: Sequence[Result]) -> None:
        took: list[float] = []
        lags: list[float] = []  # for retries: seconds from the due time to the start of the attempt
        first: list[float] = []  # for first attempts: seconds from the due time to the start of the attempt
        since: list[float] = []  # seconds from the acceptance of the message to the end of the attempt
        used: list[float] = []
        for result in results:
            job, seconds, ended_at = result.job, result.sent.timing.total / 1e6, result.ended_at
            took.append(seconds)
            used.append(job.sent + 1.0)
            if ended_at is None:
                continue
            since.append(max(0.0, (ended_at - job.accepted_at).total_seconds()))
            # A lane with a limit, or with a circuit that is not closed, starts attempts late on purpose. The lag of
            # these attempts is left out.
            if not job.counted:
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

    def _count_retries(self, results: Sequence[Result]) -> None:
        for each in results:
            verdict = each.judgement.verdict
            assert isinstance(verdict, Retry)
            # The delivery of a failed probe is due at once, but the circuit decides when it is sent. So its delay is
            # not counted.
            if not each.job.probe:
                delay = (verdict.at - each.ended_at).total_seconds() if each.ended_at is not None else 0.0
                self.retry_delay.observe(max(0.0, delay))
            self.last_attempts.add(float(each.last_left))

    def _count_deaths(self, results: Sequence[Result]) -> None:
        for each in results:
            verdict = each.judgement.verdict
            assert isinstance(verdict, Dead)
            self.dead.add(1, verdict.reason.value)


_POSITIONS: dict[type, int] = {Delivered: 0, Retry: 1, Dead: 2}  # index in a row of `AttemptCounts`
