"""Rules for paging through a listing: its bounds, how many rows one request reads, and how many fit on a page. Pure
functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import TypeVar

from msgspec import Struct

from hookline import ids
from hookline.model.attempts import AttemptedFilter, AttemptFilter
from hookline.model.lanes import LaneEventFilter, TimelineEntry
from hookline.model.messages import Message, MessageFilter, MessageSearch
from hookline.store.pages import Page, Walk

T = TypeVar("T")

STRIDE = 2_000  # maximum rows that one request reads if the filter may match rarely
MAX_BYTES = 8 * 1024 * 1024  # maximum bytes of payloads on one page

# Maximum difference between the clock that makes ids and the clock that stamps rows. Ids only narrow the range; the
# row's own timestamp decides.
_SLACK = timedelta(seconds=10)
# The time of a row is the start of its transaction, so the times of rows may be out of order, but by less than this:
# no transaction takes this long.
_WAITED = timedelta(hours=1)
_LOWEST, _HIGHEST = "", "~"  # sort before and after every id
_OK = 200


class Span(Struct, frozen=True):
    """The bounds of a scan: `near` is excluded, `far` is included."""

    near: str
    far: str


def span(prefix: str, where: MessageFilter, page: Page) -> Span:
    """Return the bounds of a scan. The scan goes from the id `page.iterator` to older ids, or to newer ids if the page
    is read backwards. `prefix` is the prefix of the listing's ids."""
    low = _LOWEST if where.after is None else ids.first_at(prefix, where.after - _SLACK)
    high = _HIGHEST if where.before is None else ids.first_at(prefix, where.before + _SLACK)
    if page.backwards:
        return Span(max(page.iterator or _LOWEST, low), high)
    return Span(min(page.iterator or _HIGHEST, high), low)


def rare(where: MessageFilter) -> bool:
    """Return whether the filter may match so rarely that the scan needs a limit. A filter by time alone needs
    no limit: ids contain their time, so the scan reads only ids near the bounds or between them."""
    if where.event_types is not None or where.channel is not None or where.tag is not None:
        return True
    match where:
        case AttemptFilter():
            # A scan for failed attempts with any status code needs no limit, because an index contains only failed
            # attempts.
            return where.code_class is not None or where.delivered is True
        case AttemptedFilter():
            # The listing shows each message once. A message may have many further attempts, which the scan must skip.
            return True
        case MessageSearch():
            return where.state is not None
        case _:
            return False


def outcome(where: AttemptFilter) -> bool | None:
    """Return True if only delivered attempts can match, False if only failed ones can, else None. Only a 2xx response
    counts as delivered."""
    if where.delivered is None and where.code_class not in (None, _OK):
        return False
    return where.delivered


def walked(found: list[T], page: Page, end: str | None) -> Walk[T]:
    """Build a page from the rows, which are in scan order. `end` is the key at which the scan stopped. A full page does
    not need this key, because the listing continues after its last row."""
    rows = found[::-1] if page.backwards else found
    return Walk(rows=rows, end=end if len(found) < page.limit else None)


def fits(messages: Sequence[Message]) -> int:
    """Return how many messages fit on a page with their payloads, counted from the first; at least one."""
    sizes = accumulate(message.size or 0 for message in messages)
    return max(1, sum(size <= MAX_BYTES for size in sizes))


def recorded_within(where: MessageFilter) -> tuple[datetime | None, datetime | None]:
    """Return the period in which attempts that started within the filter's bounds can have been recorded."""
    day = timedelta(days=1)
    return where.after and where.after - day, where.before and where.before + day


# ── the timeline of an endpoint ───────────────────────────────────────────────────────────────────────────────────


def seen_at_once(where: LaneEventFilter, page: Page) -> int:
    """Return the maximum number of events that the query for one page reads."""
    return page.limit if where == LaneEventFilter() else max(STRIDE, page.limit)


def timeline(seen: Sequence[TimelineEntry], where: LaneEventFilter, page: Page) -> Walk[TimelineEntry]:
    """Build a page from the matching events. `seen` has the events in scan order."""
    found = [entry for entry in seen if where.matches(entry.event)][: page.limit]
    over = len(seen) < seen_at_once(where, page) or _past(seen[-1].event.at, where, page)
    return walked(found, page, None if over else str(seen[-1].id))


def _past(at: datetime, where: LaneEventFilter, page: Page) -> bool:
    """Return whether a scan that has reached this instant is past the filter's time bounds, so that no further event
    can match."""
    if page.backwards:
        return where.until is not None and at >= where.until + _WAITED
    return where.since is not None and at < where.since - _WAITED
