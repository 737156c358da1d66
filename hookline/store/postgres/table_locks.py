"""Locks on tables that others work on: asked for briefly and again, and whoever holds one is named.

Whoever waits for an exclusive lock is in the way of all who come after: a migration behind a dump of an hour would stop every
ingest for that long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import structlog
from asyncpg import DeadlockDetectedError, LockNotAvailableError

from hookline.errors import HooklineError, StoreUnavailable
from hookline.store.postgres.database import Connection

log = structlog.get_logger()

T = TypeVar("T")
Look = Callable[[], Awaitable[list[Any]]]  # who is in the way now: rows of `migration_blockers`

# Seconds. Longer than the server's deadlock_timeout (1 s), after which it ends an autovacuum that is in the way.
TIMEOUT = 2.5
LOOKS = 8  # within that time
FIRST_PAUSE, LONGEST_PAUSE = 2.5, 10.0  # seconds in which those who waited behind us go on; doubles
TRIES = 60  # about twelve minutes


async def patiently(connection: Connection, work: Callable[[Connection], Awaitable[T]], look: Look, what: str) -> T:
    """`work` in one transaction; anew, after a pause, if it did not get a lock."""
    pause, blocker = FIRST_PAUSE, ""
    for tried in range(1, TRIES + 1):
        async with _watched(look) as seen:
            try:
                async with connection.transaction():
                    await connection.execute(f"SET LOCAL lock_timeout = '{int(TIMEOUT * 1000)}ms'")
                    return await work(connection)
            except (LockNotAvailableError, DeadlockDetectedError):
                blocker = _words(seen)
        if tried < TRIES:
            log.warning("migration_waits", what=what, waits_for=blocker, tried=tried, tries=TRIES, again_in=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
    raise StoreUnavailable(f"{what} has changed nothing: it waited {TRIES} times for {blocker}")


@asynccontextmanager
async def _watched(look: Look) -> AsyncIterator[list[Any]]:
    """What was last seen in the way, while the block runs: the error that ends it does not say."""
    seen: list[Any] = []
    watching = asyncio.create_task(_watch(look, seen))
    try:
        yield seen
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def _watch(look: Look, seen: list[Any]) -> None:
    while True:
        await asyncio.sleep(TIMEOUT / LOOKS)
        try:
            seen[:] = await look() or seen
        except HooklineError:
            return  # the message is poorer, and nothing else


def _words(seen: list[Any]) -> str:
    if not seen:
        return "a lock"
    return f"a lock on {seen[0]['wanted']} held by {', '.join(_holder(row) for row in seen)}"


def _holder(row: Any) -> str:
    """A session of another role does not show all of itself; a prepared transaction has none."""
    if not row["pid"]:
        return "a prepared transaction"
    named = ", ".join(filter(None, (row["application"], row["role"])))
    return f"pid {row['pid']} ({named})" if named else f"pid {row['pid']}"
