"""Unhealthy lanes and the health of applications, on SQLite."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.model import AppHealth, Backlog
from hookline.store.plans.unhealthy_lanes import SharedUnhealthyLanes
from hookline.store.protocols import MAX_WAITING
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.transaction import Tx


class UnhealthyLanes(SharedUnhealthyLanes, Base):
    async def app_health(self, app_nos: Iterable[int], *, lanes: int, counted: int) -> dict[int, AppHealth]:
        return await self._read(_app_health, list(app_nos), lanes, counted)

    async def backlog(self, org_id: str, app_no: int | None = None) -> Backlog:
        return await self._read(_backlog, org_id, app_no)


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
