"""Read the latest events of a lane."""

from __future__ import annotations

import sys

from hookline.model.lanes import LaneEventFilter, TimelineEntry
from hookline.store import Page, Store

PAGE = 1000  # maximum events of one query


async def latest(
    store: Store, endpoint_no: int, where: LaneEventFilter, limit: int, *, queries: int = sys.maxsize
) -> list[TimelineEntry]:
    """Return the latest events that match, newest first. The store may end a page of a long search early, so this reads
    several pages, at most as many as `queries`."""
    found: list[TimelineEntry] = []
    page = Page(limit=min(limit, PAGE))
    for _ in range(queries):
        walk = await store.history.timeline(endpoint_no, where, page)
        found += walk.rows
        if len(found) >= limit or (walk.end is None and len(walk.rows) < page.limit):
            break
        page = Page(limit=page.limit, iterator=walk.end or str(walk.rows[-1].id))
    return found[:limit]
