"""Count open deliveries, dead letters, lanes and outbox rows (`Depths`) in one snapshot.

The result is cached in the database, so that many processes count no more often than one.
"""

from __future__ import annotations

from hookline import clock
from hookline.model.depths import Depths
from hookline.store.bounds import COUNTED
from hookline.store.plans.depths import Counted, cached_for, decode, depths_of, encode
from hookline.store.postgres.database import Connection, Database


class DepthCount:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._sql = database.sql

    async def depths(self, *, fresh: float = 0.0) -> Depths:
        if fresh <= 0:
            async with self._db.any_scan() as connection:
                return await self._count(connection)
        row = await self._db.fetchrow("depths_kept")
        last = None if row is None else decode(row["data"])
        if last is not None and 0 <= row["age"] < cached_for(last.seconds, fresh):
            return last
        return await self._db.transact(self._count_and_cache, any_scan=True) or last or await self.depths()

    async def _count_and_cache(self, connection: Connection) -> Depths | None:
        """Count depths and cache them. None: another process is counting."""
        if not await connection.fetchval(self._sql["depths_guard"]):
            return None
        found = await self._count(connection)
        await connection.execute(self._sql["depths_keep"], found.at, encode(found))
        return found

    async def _count(self, connection: Connection) -> Depths:
        began = clock.monotonic()
        row = await connection.fetchrow(self._sql["depths"], COUNTED)
        counted = dict(row) | {"dead": dict(row["dead"]), "circuits": dict(row["circuits"])}
        at = counted.pop("at")
        return depths_of(Counted(**counted), at, clock.monotonic() - began)
