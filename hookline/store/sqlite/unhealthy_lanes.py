"""Lanes that want somebody's attention, and what waits in those of one tenant."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.model import AppHealth, Backlog, UnhealthyLane
from hookline.store import rows
from hookline.store.protocols import MAX_WAITING
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.transaction import READ, Tx
from hookline.store.sqlite.views import lane_view
from hookline.store.unhealthy_lanes import COMPARED, MAX_DYING, apps, chosen


class UnhealthyLanes(Base):
    async def troubled(
        self, most: int, *, org_id: str | None = None, app_no: int | None = None, counted: int = MAX_WAITING
    ) -> list[UnhealthyLane]:
        return await self._read(_troubled, most, org_id, app_no, counted)

    async def app_health(self, app_nos: Iterable[int], *, lanes: int, counted: int) -> dict[int, AppHealth]:
        return await self._read(_app_health, list(app_nos), lanes, counted)

    async def backlog(self, org_id: str, app_no: int | None = None) -> Backlog:
        return await self._read(_backlog, org_id, app_no)


def _troubled(tx: Tx, most: int, org_id: str | None, app_no: int | None, counted: int) -> list[UnhealthyLane]:
    lanes = tx.tuples("troubled_numbers", {"now": tx.now, "most": most, "org_id": org_id, "app_no": app_no})
    first, last = apps(app_no)
    bounds = {"looked_at": MAX_DYING, "compared": COMPARED, "most": most}
    dead = tx.tuples("troubled_dead", bounds | {"first": first, "last": last, "org_id": org_id})
    found = (_one(tx, no, counted) for no in chosen(lanes, [no for (no,) in dead], most))
    return [each for each in found if each is not None]


def _one(tx: Tx, no: int, counted: int) -> UnhealthyLane | None:
    view = lane_view(tx, no, counted)
    about = tx.row("troubled_about", {"no": no, "bound": counted})
    return None if view is None or about is None else rows.troubled(view, about, READ)


def _app_health(tx: Tx, app_nos: list[int], lanes: int, counted: int) -> dict[int, AppHealth]:
    found: dict[int, AppHealth] = {}
    for app_no in app_nos:
        row = tx.row("app_health", {"app_no": app_no, "now": tx.now, "lanes": lanes, "bound": counted})
        assert row is not None
        found[app_no] = AppHealth(**dict(row))
    return found


def _backlog(tx: Tx, org_id: str, app_no: int | None) -> Backlog:
    of = {"org_id": org_id, "app_no": app_no, "now": tx.now}
    ((lanes, held_lanes),) = tx.tuples("backlog_lanes", of)
    oldest = tx.value("backlog_oldest", of)
    waiting, held = (tx.value("backlog_open", of | {"held": held, "bound": MAX_WAITING}) for held in (0, 1))
    return Backlog(
        lanes=lanes,
        held_lanes=held_lanes,
        waiting=waiting,
        held=held,
        oldest_due=None if oldest is None else instant(oldest),
    )
