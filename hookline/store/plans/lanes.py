"""Lanes and their events."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.model import LaneEvent, LaneEventFilter, LaneView, TimelineEntry
from hookline.store import rows
from hookline.store.plans import listing
from hookline.store.plans.plan import Plan, Shared, Step, reads
from hookline.store.protocols import LAST_NUMBER, MAX_LISTED, MAX_WAITING, Page, Walk, after_number


class Lanes(Shared):
    @reads
    def lanes(self, org_id: str | None = None, app_no: int | None = None) -> Plan[list[LaneView]]:
        if org_id is not None:
            found = yield Step("lanes_of_org", org_id=org_id, app_no=app_no)
        elif app_no is not None:
            found = yield Step("lanes_of_app", app_no=app_no)
        else:
            found = yield Step("lanes_all")
        return (yield from self._lane_views([each["no"] for each in found], MAX_WAITING))

    @reads
    def lane_page(
        self, org_id: str, app_no: int | None, page: Page, *, url: str = "", state: str | None = None
    ) -> Plan[list[LaneView]]:
        found = yield Step(
            "lane_page",
            org_id=org_id,
            app_no=app_no,
            after=page.iterator or "",
            url=url,
            state=state,
            limit=page.limit,
        )
        return (yield from self._lane_views([each["no"] for each in found], MAX_LISTED))

    @reads
    def lane_view(self, endpoint_no: int) -> Plan[LaneView | None]:
        found = yield from self._lane_views([endpoint_no], MAX_WAITING)
        return found[0] if found else None

    def _lane_views(self, nos: Sequence[int], counted: int) -> Plan[list[LaneView]]:
        """Return the lanes in this order. Open deliveries of each are counted up to `counted`."""
        found = yield Step("lane_views", nos=nos, counted=counted)
        views = {each["endpoint_no"]: rows.lane_view(each, self._reading, counted) for each in found}
        return [views[no] for no in nos if no in views]

    @reads
    def lane_events(self, endpoint_no: int, limit: int = 100) -> Plan[list[LaneEvent]]:
        found = yield Step("lane_events", no=endpoint_no, limit=limit)
        return [rows.lane_event(each, self._reading) for each in found]

    @reads
    def timeline(self, endpoint_no: int, where: LaneEventFilter, page: Page) -> Plan[Walk[TimelineEntry]]:
        start = after_number(page.iterator)
        if start is None:
            start = 0 if page.backwards else LAST_NUMBER
        name = "timeline_back" if page.backwards else "timeline"
        found = yield Step(name, no=endpoint_no, iterator=start, limit=listing.seen_at_once(where, page))
        return listing.timeline([rows.timeline_entry(each, self._reading) for each in found], where, page)
