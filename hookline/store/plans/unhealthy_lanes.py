"""Unhealthy lanes, and the health of applications."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hookline.model import UnhealthyLane
from hookline.store import rows
from hookline.store.plans.lanes import Lanes
from hookline.store.plans.plan import Plan, Step, reads
from hookline.store.protocols import MAX_WAITING

MAX_DYING = 1_000  # maximum endpoints with dead letters that are compared
COMPARED = 100  # maximum dead letters of each of these endpoints that are counted
_LAST = 2**63 - 1


class SharedUnhealthyLanes(Lanes):
    @reads
    def unhealthy_lanes(
        self, limit: int, *, org_id: str | None = None, app_no: int | None = None, counted: int = MAX_WAITING
    ) -> Plan[list[UnhealthyLane]]:
        lanes = yield Step("unhealthy_lane_numbers", max_rows=limit, org_id=org_id, app_no=app_no)
        dead = yield Step(
            "unhealthy_lanes_dead",
            looked_at=MAX_DYING,
            compared=COMPARED,
            first=app_no or 0,
            last=_LAST if app_no is None else app_no,
            org_id=org_id,
            max_rows=limit,
        )
        held = [each["endpoint_no"] for each in lanes if each["held"]]
        others = [each["endpoint_no"] for each in lanes]
        nos = _once([*held, *(each["endpoint_no"] for each in dead), *others])[:limit]
        return (yield from self._details(nos, counted)) if nos else []

    def _details(self, nos: Sequence[int], counted: int) -> Plan[list[UnhealthyLane]]:
        views = yield from self._lane_views(nos, counted)
        about = {each["no"]: each for each in (yield Step("unhealthy_lane_details", nos=nos, counted=counted))}
        found = [(view, about.get(view.lane.endpoint_no)) for view in views]
        return [rows.unhealthy_lane(view, each, self._reading) for view, each in found if each is not None]


def _once(numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
