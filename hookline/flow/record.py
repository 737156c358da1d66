"""What a batch of results means to lanes, deliveries and attempts. Pure; both engines build their writes from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from hookline.flow.circuit import LaneOutcome
from hookline.model import Delivered, Job, Result, Retry
from hookline.states import Health

DETAIL_LIMIT = 2000  # characters of a cause, an error or a reason that are kept


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
        counted=job.counted,
        probe=job.probe,
        hold_until=judgement.hold_until,
        gone=judgement.gone,
        cause=cause_of(result),
    )


def released_outcomes(jobs: Iterable[Job]) -> dict[int, list[LaneOutcome]]:
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


def bare(result: Result) -> Result:
    """The same result without anything that the endpoint sent."""
    return replace(result, sent=replace(result.sent, detail="", headers={}, body=b"", address=""))


def clean(text: str) -> str:
    """Text that every database takes: no NUL, no lone surrogate, not too long."""
    if len(text) > DETAIL_LIMIT:
        text = text[:DETAIL_LIMIT]
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
