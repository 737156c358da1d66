"""Retention: drop old daily partitions, unless an open delivery or a dead letter still needs one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import structlog
from asyncpg import LockNotAvailableError
from msgspec.structs import replace

from hookline import clock
from hookline.model.sweep import SweepReport
from hookline.rules.clock_jumps import ClockJumps
from hookline.store.plans.operators import GUESSES_KEPT
from hookline.store.plans.sweep_locks import SweepLock
from hookline.store.postgres.database import Connection, Database

log = structlog.get_logger()

# A transaction that waits for an exclusive lock on a table blocks all later transactions there. So give up soon and
# try again later.
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '250ms'"
_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
_DELETE = {"message": "retire_messages", "attempt": "retire_attempts", "delivery_done": "retire_done"}


async def guarded(
    database: Database, lock: SweepLock, work: Callable[[Connection], Awaitable[SweepReport]], *, any_scan: bool = False
) -> SweepReport:
    """Do periodic work under its lock. If another worker holds the lock, do nothing, and return an empty report."""

    async def alone(connection: Connection) -> SweepReport:
        if not await connection.fetchval(database.sql["sweep_guard"], int(lock)):
            return SweepReport()
        return await work(connection)

    return await database.transact(alone, any_scan=any_scan)


class Retention:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._sql = database.sql
        self._options = database.options
        self._jumps = ClockJumps()

    async def retire(self, limit: int = 5000) -> SweepReport:
        """Apply retention in several transactions, so that a step that cannot get its lock does not undo the
        others."""
        now: datetime = await self._db.fetchval("now")
        if not self._jumps.trusted(now.timestamp(), clock.monotonic()):
            log.warning("retention_put_off", cause="the clock of the database jumped")
            await self._partitions_made()
            return SweepReport()
        taken = await self._retire_rows(limit)
        if not await self._partitions_made():
            return taken
        retired = taken.retired
        for row in await self._db.fetch("retire_partitions", self._options.retention_days):
            retired += await self._retire_day(row["parent"], row["name"], row["day"], limit)
        retired += await self._retire_default(limit)
        return replace(taken, retired=retired)

    async def _partitions_made(self) -> bool:
        try:
            await guarded(self._db, SweepLock.RETIRE, self._make_partitions, any_scan=True)
        except LockNotAvailableError:
            return False
        return True

    async def _make_partitions(self, connection: Connection) -> SweepReport:
        await connection.execute(_LOCK_TIMEOUT)
        await connection.execute(self._sql["make_partitions"])
        return SweepReport()

    async def _retire_rows(self, limit: int) -> SweepReport:
        options = self._options
        steps: list[tuple[str, tuple[float, ...]]] = [
            ("retire_key", (limit,)),
            ("retire_answer", (limit,)),
            ("retire_token", (limit,)),
            ("retire_session", (limit,)),
            ("retire_guess", (GUESSES_KEPT, limit)),
            ("retire_audit", (options.audit_retention_days, limit)),
            ("retire_event_id", (options.retention_days, limit)),
            ("retire_lane_event", (options.retention_days, limit)),
            ("retire_task", (options.retention_days, limit)),
            ("retire_resolved", (options.retention_days, limit)),
        ]

        async def work(connection: Connection) -> SweepReport:
            dead = await connection.fetchrow(self._sql["retire_dead"], options.dead_retention_days, limit)
            counts = [_count(await connection.execute(self._sql[name], *args)) for name, args in steps]
            return SweepReport(retired=dead["retired"] + sum(counts), dead_expired=dead["expired"])

        return await guarded(self._db, SweepLock.RETIRE, work, any_scan=True)

    async def _retire_day(self, parent: str, name: str, day: date, limit: int) -> int:
        """Drop `name`, the partition of the table `parent` for `day`. If some of its rows are still needed, delete the
        other rows instead, at most `limit`."""
        begin = datetime.combine(day, time(), UTC)
        end = begin + timedelta(days=1)

        async def work(connection: Connection) -> SweepReport:
            # Lock first, so that no transaction can create a delivery of these messages between the check and the
            # drop.
            await connection.execute(_LOCK_TIMEOUT)
            await connection.execute(f"LOCK TABLE hookline.{_quoted(name)} IN ACCESS EXCLUSIVE MODE")
            if await self._needed(connection, parent, begin, end):
                return SweepReport()
            await connection.execute(f"DROP TABLE hookline.{_quoted(name)}")
            return SweepReport(retired=1)

        try:
            dropped = (await guarded(self._db, SweepLock.RETIRE, work, any_scan=True)).retired
        except LockNotAvailableError:
            return 0
        return dropped or await self._retire_span(parent, begin, end, limit)

    async def _needed(self, connection: Connection, parent: str, begin: datetime, end: datetime) -> bool:
        if parent == "delivery_done":
            return False
        since = begin if parent == "message" else _BEGINNING
        needed: bool = await connection.fetchval(self._sql["retire_needed"], since, end)
        return needed

    async def _retire_default(self, limit: int) -> int:
        """Delete old rows from the default partitions. These contain the rows that arrived while the partition of
        their day was missing."""
        now: datetime = await self._db.fetchval("now")
        cutoff = now - timedelta(days=self._options.retention_days)
        return sum([await self._retire_span(parent, _BEGINNING, cutoff, limit, default=True) for parent in _DELETE])

    async def _retire_span(
        self, parent: str, begin: datetime, end: datetime, limit: int, *, default: bool = False
    ) -> int:
        statement = self._sql[_DELETE[parent]]
        if default:
            statement = statement.replace(f"hookline.{parent} ", f"hookline.{parent}_default ")

        async def work(connection: Connection) -> SweepReport:
            return SweepReport(retired=_count(await connection.execute(statement, begin, end, limit)))

        return (await guarded(self._db, SweepLock.RETIRE, work, any_scan=True)).retired


def _quoted(name: str) -> str:
    """Quote a table name that was read from the system catalogue."""
    return '"' + name.replace('"', '""') + '"'


def _count(status: Any) -> int:
    return int(str(status).rpartition(" ")[2])
