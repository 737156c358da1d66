"""Unhealthy lanes and the health of applications, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.model import AppHealth, Backlog
from hookline.store.plans.unhealthy_lanes import SharedUnhealthyLanes
from hookline.store.postgres.base import Part
from hookline.store.protocols import MAX_WAITING


class UnhealthyLanes(SharedUnhealthyLanes, Part):
    async def app_health(self, app_nos: Iterable[int], *, lanes: int, counted: int) -> dict[int, AppHealth]:
        found = [dict(row) for row in await self._db.fetch("app_health", list(app_nos), lanes, counted)]
        return {row.pop("app_no"): AppHealth(**row) for row in found}

    async def backlog(self, org_id: str, app_no: int | None = None) -> Backlog:
        return Backlog(**dict(await self._db.fetchrow("backlog", org_id, app_no, MAX_WAITING)))
