"""Lanes, their events and their health, and the health of applications."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hookline.model.depths import Backlog
from hookline.model.lanes import AppHealth, LaneEvent, LaneEventFilter, LaneView, TimelineEntry, UnhealthyLane
from hookline.store import rows
from hookline.store.bounds import LAST_NUMBER, MAX_LISTED, MAX_WAITING
from hookline.store.pages import Page, Walk, after_number
from hookline.store.plans import listing
from hookline.store.plans.plan import Plan, Plans, Step, in_direction, reads

# `unhealthy_lanes` looks for the lanes with the most unresolved dead letters. These two limits bound its cost.
MAX_DYING = 1_000  # maximum endpoints whose dead letters are counted
COMPARED = 100  # maximum dead letters of one endpoint that are counted; endpoints with more count as equal


class Lanes(Plans):
    """Read lanes, their events and their health."""

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
        """Return a page of lanes ordered by endpoint id. `page.iterator` is an endpoint id. `url` selects lanes with
        this lower-case text in their URL. `state` is one of the states in `dashboard/endpoint_health.py`, or `sick` for
        all unhealthy lanes. Open deliveries of each lane are counted up to `MAX_LISTED`."""
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
        """Return the lanes in the order of `nos`. The count of open deliveries of each lane stops at `counted`."""
        found = yield Step("lane_views", nos=nos, counted=counted)
        views = {each["endpoint_no"]: rows.lane_view(each, self._reading, counted) for each in found}
        return [views[no] for no in nos if no in views]

    @reads
    def lane_events(self, endpoint_no: int, limit: int = 100) -> Plan[list[LaneEvent]]:
        """Return the lane's latest events, newest first."""
        found = yield Step("lane_events", no=endpoint_no, limit=limit)
        return [rows.lane_event(each, self._reading) for each in found]

    @reads
    def timeline(self, endpoint_no: int, where: LaneEventFilter, page: Page) -> Plan[Walk[TimelineEntry]]:
        """Return a page of the lane's events, newest first. `page.iterator` is the number of an entry."""
        start = after_number(page.iterator)
        if start is None:
            start = 0 if page.backwards else LAST_NUMBER
        limit = listing.seen_at_once(where, page)
        found = yield Step(in_direction("timeline", page), no=endpoint_no, iterator=start, limit=limit)
        return listing.timeline([rows.timeline_entry(each, self._reading) for each in found], where, page)

    # ── unhealthy lanes, and the health of applications ──

    @reads
    def unhealthy_lanes(
        self, limit: int, *, org_id: str | None = None, app_no: int | None = None, counted: int = MAX_WAITING
    ) -> Plan[list[UnhealthyLane]]:
        """Return up to `limit` unhealthy lanes, in this order: held back, unresolved dead letters, failing, slowed by
        429 responses. Within each group, the lanes that have failed longest or have the most dead letters come first.
        Open deliveries and dead letters of each lane are counted up to `counted`."""
        lanes = yield Step("unhealthy_lane_numbers", max_rows=limit, org_id=org_id, app_no=app_no)
        dead = yield Step(
            "unhealthy_lanes_dead",
            looked_at=MAX_DYING,
            compared=COMPARED,
            first=app_no or 0,
            last=LAST_NUMBER if app_no is None else app_no,
            org_id=org_id,
            max_rows=limit,
        )
        held = [each["endpoint_no"] for each in lanes if each["held"]]
        others = [each["endpoint_no"] for each in lanes]
        nos = _once([*held, *(each["endpoint_no"] for each in dead), *others])[:limit]
        return (yield from self._details(nos, counted)) if nos else []

    @reads
    def app_health(self, app_nos: Iterable[int], *, lanes: int, counted: int) -> Plan[dict[int, AppHealth]]:
        """Return the health of applications by number. At most `lanes` lanes of each application are read. For each
        application, deliveries in held lanes are counted up to `counted`, and so are unresolved dead letters."""
        found = yield Step("app_health", app_nos=list(app_nos), lanes=lanes, counted=counted)
        return {each["app_no"]: self._reading.struct(AppHealth, each) for each in found}

    @reads
    def backlog(self, org_id: str, app_no: int | None = None) -> Plan[Backlog]:
        found = yield Step("backlog", org_id=org_id, app_no=app_no, counted=MAX_WAITING)
        return self._reading.struct(Backlog, found[0])

    def _details(self, nos: Sequence[int], counted: int) -> Plan[list[UnhealthyLane]]:
        views = yield from self._lane_views(nos, counted)
        about = {each["no"]: each for each in (yield Step("unhealthy_lane_details", nos=nos, counted=counted))}
        found = [(view, about.get(view.lane.endpoint_no)) for view in views]
        return [rows.unhealthy_lane(view, each, self._reading) for view, each in found if each is not None]


def _once(numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
