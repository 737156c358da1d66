"""Lanes that want somebody's attention, and what waits in those of one tenant."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.model import AppHealth, Backlog, Troubled
from hookline.store import rows
from hookline.store.base import MOST_WAITING
from hookline.store.postgres.base import Part
from hookline.store.postgres.database import READ
from hookline.store.troubled import COMPARED, MOST_DYING, apps, chosen


class TroubledLanes(Part):
    async def troubled(
        self, most: int, *, org_id: str | None = None, app_no: int | None = None, counted: int = MOST_WAITING
    ) -> list[Troubled]:
        lanes = await self._db.fetch("troubled_numbers", org_id, app_no, most)
        dead = await self._db.fetch("troubled_dead", MOST_DYING, COMPARED, *apps(app_no), org_id, most)
        numbers = chosen([(no, held) for no, held in lanes], [no for (no,) in dead], most)
        found = await self._db.fetch("troubled", numbers, counted) if numbers else []
        return [rows.troubled(rows.lane_view(row, READ, counted), row, READ) for row in found]

    async def app_health(self, app_nos: Iterable[int], *, lanes: int, counted: int) -> dict[int, AppHealth]:
        found = [dict(row) for row in await self._db.fetch("app_health", list(app_nos), lanes, counted)]
        return {row.pop("app_no"): AppHealth(**row) for row in found}

    async def backlog(self, org_id: str, app_no: int | None = None) -> Backlog:
        return Backlog(**dict(await self._db.fetchrow("backlog", org_id, app_no, MOST_WAITING)))
