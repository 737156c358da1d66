"""Build `Stats` from the counts of either engine."""

from __future__ import annotations

from msgspec import Struct

from hookline import ids
from hookline.model import Stats, StatsFilter

# Maximum rows counted per figure. It takes about a second of the database's time, so that a busy month does not
# block other work.
MAX_COUNTED = 250_000


class Span(Struct, frozen=True, kw_only=True):
    """The ids that were made in a period: `first` is included, `last` is excluded."""

    first: str
    last: str


def message_ids(where: StatsFilter) -> Span:
    return _span(ids.MESSAGE, where)


def attempt_ids(where: StatsFilter) -> Span:
    return _span(ids.ATTEMPT, where)


def _span(prefix: str, where: StatsFilter) -> Span:
    return Span(first=ids.first_at(prefix, where.since), last=ids.first_at(prefix, where.until))


class Figures(Struct, frozen=True, kw_only=True):
    """The counts as the database returned them."""

    messages: int
    waiting: tuple[int, int]  # pending, scheduled
    queued: int
    delivering: int
    attempts: int
    failed: tuple[int, int]  # will be retried, dead
    dead: tuple[int, int]  # unresolved, resolved
    dead_open: int


def stats_of(found: Figures) -> Stats:
    """Build the statistics. Each delivered attempt is one delivered delivery, so deliveries are not counted separately."""
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
