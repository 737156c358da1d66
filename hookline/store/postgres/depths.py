"""Count depths in one snapshot, and cache the result in the database, so that a fleet counts no more often than one
process."""

from __future__ import annotations

from hookline import clock
from hookline.model import Counts, Depths, OutboxView
from hookline.store.plans.depths import Counted, by_name, cached_for, decode, depths_of, encode
from hookline.store.postgres.base import Part
from hookline.store.postgres.database import Connection
from hookline.store.protocols import COUNTED


class DepthsOf(Part):
    async def counts(self) -> Counts:
        return Counts(**dict(await self._db.fetchrow("counts")))

    async def depths(self, *, fresh: float = 0.0) -> Depths:
        if fresh <= 0:
            async with self._db.calm() as connection:
                return await self._count(connection)
        row = await self._db.fetchrow("depths_kept")
        last = None if row is None else decode(row["data"])
        if last is not None and 0 <= row["age"] < cached_for(last.seconds, fresh):
            return last
        return await self._db.transact(self._count_and_cache, calm=True) or last or await self.depths()

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
        found = Counted(
            pending=row["pending"],
            scheduled=row["scheduled"],
            delivering=row["delivering"],
            queued=row["queued"],
            due=row["due"],
            oldest_due=row["oldest_due"],
            held=row["held"],
            dead=dict(row["dead"]),
            circuits=dict(row["circuits"]),
            lanes={
                "paused": row["paused"],
                "disabled": row["disabled"],
                "held": row["held_lanes"],
                "slowed": row["slowed"],
            },
            outbox=OutboxView(
                waiting=row["outbox_waiting"], oldest=row["outbox_oldest"], set_aside=row["outbox_set_aside"]
            ),
            alerts=by_name(row["alerts"]),
        )
        return depths_of(found, row["at"], clock.monotonic() - began)
