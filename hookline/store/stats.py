"""What both engines count, and how far."""

from __future__ import annotations

from msgspec import Struct

from hookline import ids
from hookline.model import Stats, StatsFilter

MAX_COUNTED = (
    250_000  # of each figure, about a second of the database's time: a busy month must not keep it from its work
)


class Span(Struct, frozen=True, kw_only=True):
    """The ids that were made in a stretch of time: from the first on, and before the last."""

    first: str
    last: str


def message_ids(where: StatsFilter) -> Span:
    return _span(ids.MESSAGE, where)


def attempt_ids(where: StatsFilter) -> Span:
    return _span(ids.ATTEMPT, where)


def _span(prefix: str, where: StatsFilter) -> Span:
    return Span(first=ids.first_at(prefix, where.since), last=ids.first_at(prefix, where.until))


class Figures(Struct, frozen=True, kw_only=True):
    """As they come from the database."""

    messages: int
    waiting: tuple[int, int]  # pending, scheduled
    queued: int
    delivering: int
    attempts: int
    failed: tuple[int, int]  # with a retry to come, dead
    dead: tuple[int, int]  # still open, resolved
    dead_open: int


def stats_of(found: Figures) -> Stats:
    """Each delivered attempt is one delivered delivery: they need not be counted apart."""
    counted = (
        found.messages,
        sum(found.waiting),
        found.queued,
        found.attempts,
        sum(found.failed),
        sum(found.dead),
        found.dead_open,
    )
    return Stats(
        messages=found.messages,
        pending=found.waiting[0],
        scheduled=found.waiting[1],
        queued=found.queued,
        delivering=found.delivering,
        delivered=max(0, found.attempts - sum(found.failed)),
        dead=found.dead[0],
        resolved=found.dead[1],
        retries=found.failed[0],
        deaths=found.failed[1],
        dead_open=found.dead_open,
        complete=all(many < MAX_COUNTED for many in counted),
    )
