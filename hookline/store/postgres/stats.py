"""Count statistics in one snapshot."""

from __future__ import annotations

import asyncio

from hookline.model import Stats, StatsFilter
from hookline.security.vault import Vault
from hookline.store.plans.stats import MAX_COUNTED, Figures, attempt_ids, message_ids, stats_of
from hookline.store.postgres.base import Part
from hookline.store.postgres.database import Connection, Database
from hookline.store.protocols import StoreOptions


class Statistics(Part):
    def __init__(self, database: Database, vault: Vault, options: StoreOptions) -> None:
        super().__init__(database, vault, options)
        self._counting = asyncio.Lock()  # one count at a time, so that counting does not occupy every calm connection

    async def in_flight(self, endpoint_no: int) -> int:
        count: int = await self._db.fetchval("stats_delivering", [endpoint_no])
        return count

    async def stats(self, where: StatsFilter) -> Stats:
        async def work(connection: Connection) -> Stats:
            await connection.execute(self._sql["stats_snapshot"])
            await connection.execute(self._sql["stats_planner"])
            return stats_of(await self._figures(connection, where))

        async with self._counting:
            return await self._db.transact(work, calm=True)

    async def _figures(self, connection: Connection, where: StatsFilter) -> Figures:
        apps = await self._applications(connection, where)
        lanes = await self._endpoints(connection, apps, where)
        sent, tried = message_ids(where), attempt_ids(where)
        between = (lanes, tried.first, tried.last, MAX_COUNTED)
        return Figures(
            messages=await self._one(connection, "stats_messages", apps, sent.first, sent.last, MAX_COUNTED),
            waiting=await self._two(connection, "stats_waiting", lanes, MAX_COUNTED),
            queued=await self._one(connection, "stats_queued", lanes, MAX_COUNTED),
            delivering=await self._one(connection, "stats_delivering", lanes),
            attempts=await self._one(connection, "stats_attempts", *between),
            failed=await self._two(connection, "stats_failed", *between),
            dead=await self._two(connection, "stats_dead", lanes, where.since, where.until, MAX_COUNTED),
            dead_open=await self._one(connection, "stats_dead_open", lanes, MAX_COUNTED),
        )

    async def _applications(self, connection: Connection, where: StatsFilter) -> list[int]:
        if where.endpoint_no is not None:
            return []
        if where.app_no is not None:
            return [where.app_no]
        return [row["no"] for row in await connection.fetch(self._sql["stats_apps"], where.org_id)]

    async def _endpoints(self, connection: Connection, apps: list[int], where: StatsFilter) -> list[int]:
        if where.endpoint_no is not None:
            return [where.endpoint_no]
        return [row["no"] for row in await connection.fetch(self._sql["stats_endpoints"], apps)]

    async def _one(self, connection: Connection, name: str, *args: object) -> int:
        count: int = await connection.fetchval(self._sql[name], *args)
        return count

    async def _two(self, connection: Connection, name: str, *args: object) -> tuple[int, int]:
        one, two = await connection.fetchrow(self._sql[name], *args)
        return one, two
