"""How a listing is walked: from where to where, how far at most, what fits on a page. Pure; both engines do as it says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import TypeVar

from msgspec import Struct

from hookline import ids
from hookline.model import (
    AttemptedFilter,
    AttemptFilter,
    LaneEventFilter,
    Message,
    MessageFilter,
    MessageSearch,
    TimelineEntry,
)
from hookline.store.protocols import Page, Walk

T = TypeVar("T")

STRIDE = 2_000  # rows that one request looks at, where a filter may match rarely
MAX_BYTES = 8 * 1024 * 1024  # of payloads on one page

# Between the clock that makes ids and the one that stamps rows. Ids only narrow the walk down; the stamps decide.
_SLACK = timedelta(seconds=10)
# A transaction has the instant at which it began, and may have waited for its lane since: longer than any does.
_WAITED = timedelta(hours=1)
_LOWEST, _HIGHEST = "", "~"  # before and after every id
_OK = 200


class Span(Struct, frozen=True):
    """Where a walk begins, which is not part of it, and where it ends, which is."""

    near: str
    far: str


def span(prefix: str, where: MessageFilter, page: Page) -> Span:
    """`prefix` is that of the listing's keys. Newest first, or backwards from the iterator to the newest."""
    low = _LOWEST if where.after is None else ids.first_at(prefix, where.after - _SLACK)
    high = _HIGHEST if where.before is None else ids.first_at(prefix, where.before + _SLACK)
    if page.backwards:
        return Span(max(page.iterator or _LOWEST, low), high)
    return Span(min(page.iterator or _HIGHEST, high), low)


def rare(where: MessageFilter) -> bool:
    """It may match so rarely that the walk must have an end. Bounds of time do not count, as ids have their time in them."""
    if where.event_types is not None or where.channel is not None or where.tag is not None:
        return True
    match where:
        case AttemptFilter():
            return where.code_class is not None or where.delivered is True  # what failed has an index
        case AttemptedFilter():
            return True  # repeated attempts are walked over
        case MessageSearch():
            return where.state is not None
        case _:
            return False


def outcome(where: AttemptFilter) -> bool | None:
    """Whether only delivered ones, or only failed ones, can match: nothing is delivered without a 2xx."""
    if where.delivered is None and where.code_class not in (None, _OK):
        return False
    return where.delivered


def walked(found: list[T], page: Page, end: str | None) -> Walk[T]:
    """`found` in the order of the walk; the end of the walk matters only where the page is not full."""
    rows = found[::-1] if page.backwards else found
    return Walk(rows=rows, end=end if len(found) < page.limit else None)


def fits(messages: Sequence[Message]) -> int:
    """How many of the first ones fit on a page with their payloads; one always does."""
    sizes = accumulate(message.size or 0 for message in messages)
    return max(1, sum(size <= MAX_BYTES for size in sizes))


def recorded_within(where: MessageFilter) -> tuple[datetime | None, datetime | None]:
    """When an attempt that started in the filter's bounds can have been recorded."""
    day = timedelta(days=1)
    return where.after and where.after - day, where.before and where.before + day


# ── the timeline of an endpoint ───────────────────────────────────────────────────────────────────────────────────


def seen_at_once(where: LaneEventFilter, page: Page) -> int:
    """Events that one request looks at."""
    return page.limit if where == LaneEventFilter() else max(STRIDE, page.limit)


def timeline(seen: Sequence[TimelineEntry], where: LaneEventFilter, page: Page) -> Walk[TimelineEntry]:
    """What matches of the events that were looked at, which are in the order of the walk."""
    found = [entry for entry in seen if where.matches(entry.event)][: page.limit]
    over = len(seen) < seen_at_once(where, page) or _past(seen[-1].event.at, where, page)
    return walked(found, page, None if over else str(seen[-1].id))


def _past(at: datetime, where: LaneEventFilter, page: Page) -> bool:
    """Whether nothing that matches can come behind an event of this instant."""
    if page.backwards:
        return where.until is not None and at >= where.until + _WAITED
    return where.since is not None and at < where.since - _WAITED
