"""Converts a batch of results into changes of lanes, deliveries and attempts. Both database engines use it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

from msgspec.structs import asdict, replace

from hookline.model.attempts import Sent, Timing
from hookline.model.deliveries import LeasedDelivery
from hookline.model.states import ErrorKind, Health, Reason
from hookline.model.verdicts import OUTCOMES, Dead, Judgement, RecordReport, Result, Retry, Verdict
from hookline.rules.lane.circuit import LaneOutcome
from hookline.rules.set_back import rebased

BUDGET_OVER = "the time budget ended while it waited"  # the detail of a dead letter
DETAIL_LIMIT = 2000  # stored characters of a cause, an error or a reason
LONGEST = 1e9  # longest delay in seconds, about thirty years; no policy waits longer
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
NOT_COUNTED = (Reason.BUDGET_EXHAUSTED, Reason.ENDPOINT_DELETED)  # dead letters that do not pause their endpoint
MAX_MICROS = (1 << 31) - 1  # longest phase of an attempt that the database can store


def outcomes_of(results: Iterable[Result], now: datetime) -> dict[int, list[LaneOutcome]]:
    """Group the outcomes by endpoint, in the order of completion. `now` is the database's time."""
    outcomes: dict[int, list[LaneOutcome]] = {}
    for result in results:
        outcomes.setdefault(result.job.endpoint_no, []).append(outcome_of(result, now))
    return outcomes


def outcome_of(result: Result, now: datetime) -> LaneOutcome:
    job, judgement = result.job, result.judgement
    hold = judgement.hold_until
    return LaneOutcome(
        health=judgement.health,
        epoch=job.epoch,
        claimed_at=job.claimed_at,
        counted=job.counted,
        probe=job.probe,
        hold_until=None if hold is None else rebased(hold, reckoned=result.ended_at, now=now),
        gone=judgement.gone,
        slow_down=judgement.slow_down,
        cause=cause_of(result),
    )


def released_outcomes(jobs: Iterable[LeasedDelivery]) -> dict[int, list[LaneOutcome]]:
    """Return one outcome for each delivery that was released unsent, by endpoint. It subtracts the delivery from
    `in_flight` of a limited lane, and is neither a success nor a failure."""
    outcomes: dict[int, list[LaneOutcome]] = {}
    for job in jobs:
        outcome = LaneOutcome(health=Health.NONE, epoch=job.epoch, counted=job.counted, probe=job.probe)
        outcomes.setdefault(job.endpoint_no, []).append(outcome)
    return outcomes


def cause_of(result: Result) -> str:
    """Describe the endpoint's response in one line for operators."""
    sent = result.sent
    what = f"status {sent.status}" if sent.status is not None else str(sent.error or "no answer")
    return clean(f"{what}: {sent.detail}" if sent.detail else what)


def moves_lane(result: Result) -> bool:
    """Return whether this result must be applied to its lane even if the lane is healthy.

    True for a failure, a Retry-After that holds the lane, a 410, a probe, and a delivery that the lane counts in
    `in_flight`.
    """
    judgement, job = result.judgement, result.job
    answer_counts = judgement.health == Health.BAD or judgement.hold_until is not None or judgement.gone
    return answer_counts or job.counted or job.probe


def dying_endpoints(results: Iterable[Result]) -> set[int]:
    """Return the endpoints that got a dead letter which counts towards a pause.

    Dead letters with a reason in `NOT_COUNTED` do not count. For example, a time budget can end although the endpoint
    did nothing wrong.
    """
    ended = [(result.job.endpoint_no, result.judgement.verdict) for result in results]
    return {no for no, verdict in ended if isinstance(verdict, Dead) and verdict.reason not in NOT_COUNTED}


def outcome_name(result: Result) -> str:
    """Return the outcome as the attempts table stores it."""
    return OUTCOMES[type(result.judgement.verdict)]


def halves(results: Sequence[Result]) -> tuple[Sequence[Result], Sequence[Result]]:
    middle = len(results) // 2
    return results[:middle], results[middle:]


def joined(first: RecordReport, second: RecordReport) -> RecordReport:
    """Combine the reports of both halves of a batch."""
    return RecordReport(**{name: getattr(first, name) + getattr(second, name) for name in first.__struct_fields__})


def bare(result: Result) -> Result:
    """Return the result without anything that the endpoint sent, and with all numbers and times within storable
    limits."""
    sent, judgement = result.sent, result.judgement
    phases = {phase: min(max(micros, 0), MAX_MICROS) for phase, micros in asdict(sent.timing).items()}
    times = {"started_at": _clamped(sent.started_at), "timing": Timing(**phases)}
    hold = None if judgement.hold_until is None else _clamped(judgement.hold_until)
    return replace(
        result,
        sent=replace(sent, detail="", headers={}, body=b"", address="", **times),
        judgement=replace(judgement, verdict=_bounded(judgement.verdict), hold_until=hold),
    )


def _bounded(verdict: Verdict) -> Verdict:
    if not isinstance(verdict, Retry):
        return verdict
    delay = 0.0 if math.isnan(verdict.delay) else min(max(verdict.delay, 0.0), LONGEST)
    return replace(verdict, at=_clamped(verdict.at), delay=delay)


def _clamped(at: datetime) -> datetime:
    return min(max(at, EARLIEST), LATEST)


def buried(result: Result, attempt_id: str) -> Result:
    """Return the dead letter that replaces a result that the database refuses to store, even in the form that `bare`
    returns.

    If nothing were written, the lease would expire and the delivery would be sent again without end.
    """
    job, detail = result.job, "the database refused to store the result of the attempt"
    sent = Sent(error=ErrorKind.UNSENDABLE, detail=detail, started_at=job.claimed_at)
    judgement = Judgement(verdict=Dead(reason=Reason.UNSENDABLE, detail=detail), health=Health.NONE)
    return Result(job=job, attempt_id=attempt_id, sent=sent, judgement=judgement)


def refused(result: Result, burial: RecordReport) -> RecordReport:
    """Return the report for a result that the database refused and that `buried` replaced with a dead letter.

    `burial` is the report about writing this dead letter. If nothing was written, another worker has claimed the
    delivery, and the attempt counts as lost.
    """
    if not burial.recorded:
        return replace(burial, lost=(result.attempt_id,))
    return replace(burial, recorded=0, refused=(result.job.delivery_id,))


def lost_of(results: Sequence[Result], held: Collection[str]) -> tuple[str, ...]:
    """Return the ids of the attempts whose claim was lost. `held` has the ids of the attempts whose claims were
    not lost."""
    if len(held) == len(results):
        return ()
    recorded = frozenset(held)
    return tuple(result.attempt_id for result in results if result.attempt_id not in recorded)


def clean(text: str) -> str:
    """Make the text storable in both databases: shorten it, and replace NUL and lone surrogates."""
    if len(text) > DETAIL_LIMIT:
        text = text[:DETAIL_LIMIT]
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
