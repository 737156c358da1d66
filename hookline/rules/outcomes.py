"""What a batch of results means to lanes, deliveries and attempts. Pure; both engines build their writes from it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

from msgspec.structs import asdict, replace

from hookline.model import (
    Dead,
    Delivered,
    Judgement,
    LeasedDelivery,
    RecordReport,
    Result,
    Retry,
    Sent,
    Timing,
    Verdict,
)
from hookline.model.states import ErrorKind, Health, Reason
from hookline.rules.lane.circuit import LaneOutcome

DETAIL_LIMIT = 2000  # characters of a cause, an error or a reason that are kept
LONGEST = 1e9  # seconds of a delay: no policy waits for thirty years
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
MAX_MICROS = (1 << 31) - 1  # of a phase of an attempt


def outcomes_of(results: Iterable[Result]) -> dict[int, list[LaneOutcome]]:
    """By endpoint, in the order of completion."""
    outcomes: dict[int, list[LaneOutcome]] = {}
    for result in results:
        outcomes.setdefault(result.job.endpoint_no, []).append(outcome_of(result))
    return outcomes


def outcome_of(result: Result) -> LaneOutcome:
    job, judgement = result.job, result.judgement
    return LaneOutcome(
        health=judgement.health,
        epoch=job.epoch,
        claimed_at=job.claimed_at,
        counted=job.counted,
        probe=job.probe,
        hold_until=judgement.hold_until,
        gone=judgement.gone,
        slow_down=judgement.slow_down,
        cause=cause_of(result),
    )


def released_outcomes(jobs: Iterable[LeasedDelivery]) -> dict[int, list[LaneOutcome]]:
    """Jobs that were given back unsent say nothing about their endpoint; they only free their room."""
    outcomes: dict[int, list[LaneOutcome]] = {}
    for job in jobs:
        outcome = LaneOutcome(health=Health.NONE, epoch=job.epoch, counted=job.counted, probe=job.probe)
        outcomes.setdefault(job.endpoint_no, []).append(outcome)
    return outcomes


def cause_of(result: Result) -> str:
    """One line for people: what the endpoint did."""
    sent = result.sent
    what = f"status {sent.status}" if sent.status is not None else str(sent.error or "no answer")
    return clean(f"{what}: {sent.detail}" if sent.detail else what)


def moves_lane(result: Result) -> bool:
    """Whether the lane must be written for this result, however healthy it is now."""
    judgement, job = result.judgement, result.job
    return (
        judgement.health == Health.BAD or judgement.hold_until is not None or judgement.gone or job.counted or job.probe
    )


def outcome_name(result: Result) -> str:
    """As the attempt keeps it."""
    verdict = result.judgement.verdict
    if isinstance(verdict, Delivered):
        return "delivered"
    return "retry" if isinstance(verdict, Retry) else "dead"


def halves(results: Sequence[Result]) -> tuple[Sequence[Result], Sequence[Result]]:
    middle = len(results) // 2
    return results[:middle], results[middle:]


def joined(first: RecordReport, second: RecordReport) -> RecordReport:
    """The report of both halves of a batch."""
    return RecordReport(
        recorded=first.recorded + second.recorded,
        stale=first.stale + second.stale,
        events=first.events + second.events,
        refused=first.refused + second.refused,
        lost=first.lost + second.lost,
    )


def bare(result: Result) -> Result:
    """The same result without anything that the endpoint sent, and with what is left brought into bounds."""
    sent, judgement = result.sent, result.judgement
    hold = judgement.hold_until
    return replace(
        result,
        sent=replace(
            sent,
            detail="",
            headers={},
            body=b"",
            address="",
            started_at=_legal(sent.started_at),
            timing=Timing(**{phase: min(max(micros, 0), MAX_MICROS) for phase, micros in asdict(sent.timing).items()}),
        ),
        judgement=replace(
            judgement,
            verdict=_bounded(judgement.verdict),
            hold_until=None if hold is None else _legal(hold),
        ),
    )


def _bounded(verdict: Verdict) -> Verdict:
    if not isinstance(verdict, Retry):
        return verdict
    delay = 0.0 if math.isnan(verdict.delay) else min(max(verdict.delay, 0.0), LONGEST)
    return replace(verdict, at=_legal(verdict.at), delay=delay)


def _legal(at: datetime) -> datetime:
    return min(max(at, EARLIEST), LATEST)


def buried(result: Result, attempt_id: str) -> Result:
    """What is written where even the bare result is refused: left leased it would be sent with every lease, for ever."""
    job, detail = result.job, "the database refused what came of the attempt"
    return Result(
        job=job,
        attempt_id=attempt_id,
        sent=Sent(error=ErrorKind.UNSENDABLE, detail=detail, started_at=job.claimed_at),
        judgement=Judgement(verdict=Dead(reason=Reason.UNSENDABLE, detail=detail), health=Health.NONE),
    )


def refused(result: Result, burial: RecordReport) -> RecordReport:
    """The report of a result that was buried instead; one whose claim no longer held is only stale."""
    if not burial.recorded:
        return replace(burial, lost=(result.attempt_id,))
    return replace(burial, recorded=0, refused=(result.job.delivery_id,))


def lost_of(results: Sequence[Result], held: Collection[str]) -> tuple[str, ...]:
    """The attempts of those whose claim no longer held."""
    if len(held) == len(results):
        return ()
    ours = frozenset(held)
    return tuple(result.attempt_id for result in results if result.attempt_id not in ours)


def clean(text: str) -> str:
    """Text that every database takes: no NUL, no lone surrogate, not too long."""
    if len(text) > DETAIL_LIMIT:
        text = text[:DETAIL_LIMIT]
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
