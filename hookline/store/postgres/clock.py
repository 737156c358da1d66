"""The guard against a clock that is set back.

Every schedule in the database is a time of the database's clock. If this clock is set back by an hour, everything
that is scheduled would wait an hour longer. The sweep therefore notes the clock's time every few seconds. If the clock
later shows a time before the noted one, or before the time of the newest message, it was set back. Stored times that
are in the future are then moved back by the same amount: first all except those of deliveries, in one transaction,
then those of deliveries, in batches. The row `hookline.clock` says how far this work has come. This row is changed in
the same transactions, so that no time is moved twice, whichever process continues.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from hookline.model.sweep import SweepReport
from hookline.rules.set_back import latest, set_back
from hookline.store.plans.sweep_locks import SweepLock
from hookline.store.postgres.database import Connection, Database
from hookline.store.postgres.retire import guarded

_MOVES = (
    "clock_move_lanes",
    "clock_move_paces",
    "clock_move_tokens",
    "clock_move_answers",
    "clock_move_guesses",
    "clock_move_alerts",
)


class ClockGuard:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._sql = database.sql

    async def sweep_clock(self, limit: int = 1000) -> SweepReport:
        async def work(connection: Connection) -> SweepReport:
            seen = await connection.fetchrow(self._sql["clock_seen"])
            if seen is None:
                await connection.execute(self._sql["clock_start"])
            elif seen["moving"]:
                return SweepReport(moved=await self._move_deliveries(connection, limit))
            elif back := set_back(shown := latest(seen["at"], seen["newest"], seen["was_at"]), seen["now"]):
                return await self._turn_back(connection, back, shown)
            else:
                await connection.execute(self._sql["clock_follow"])
            return SweepReport()

        return await guarded(self._db, SweepLock.CLOCK, work, any_scan=True)

    async def _turn_back(self, connection: Connection, back: timedelta, shown: datetime) -> SweepReport:
        for name in _MOVES:
            await connection.execute(self._sql[name], back)
        await connection.execute(self._sql["clock_turned"], back, shown)
        return SweepReport(set_back=back.total_seconds())

    async def _move_deliveries(self, connection: Connection, limit: int) -> int:
        moved: int = await connection.fetchval(self._sql["clock_move_deliveries"], limit, self._db.options.lease)
        return moved
