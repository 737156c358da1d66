"""Lock tables that other sessions use: wait briefly, retry, and name the sessions that hold the lock.

A transaction that waits for an exclusive lock on a table blocks all later transactions there. If a migration waited
for an hour-long dump, all ingest would stop for that hour.
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
FindBlockers = Callable[[], Awaitable[list[Any]]]  # returns the sessions that block now: rows of `migration_blockers`

# Maximum seconds to wait for a lock. Longer than the server's deadlock_timeout (1 s), after which the server cancels
# an autovacuum that blocks the lock.
TIMEOUT = 2.5
CHECKS = 8  # how often each try looks for the sessions that block it
# Seconds of the first and the longest pause between two tries. Each pause is twice as long as the one before, up to the
# longest. In a pause, the transactions that waited behind this one continue.
FIRST_PAUSE, LONGEST_PAUSE = 2.5, 10.0
TRIES = 60  # maximum tries; about twelve minutes in all


async def with_lock_retries(
    connection: Connection, work: Callable[[Connection], Awaitable[T]], find_blockers: FindBlockers, what: str
) -> T:
    """Run `work` in one transaction. If it does not get a lock in time, roll back and run it again after a pause.

    After `TRIES` tries, raise `StoreUnavailable`. Its message has `what`, the name of the work, and the sessions that
    `find_blockers` found.
    """
    pause, blocker = FIRST_PAUSE, ""
    for tried in range(1, TRIES + 1):
        async with _watching_blockers(find_blockers) as seen:
            try:
                async with connection.transaction():
                    await connection.execute(f"SET LOCAL lock_timeout = '{int(TIMEOUT * 1000)}ms'")
                    return await work(connection)
            except (LockNotAvailableError, DeadlockDetectedError):
                blocker = _describe(seen)
        if tried < TRIES:
            log.warning("migration_waits", what=what, waits_for=blocker, tried=tried, tries=TRIES, again_in=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
    raise StoreUnavailable(f"{what} changed nothing: it waited {TRIES} times for {blocker}")


@asynccontextmanager
async def _watching_blockers(find_blockers: FindBlockers) -> AsyncIterator[list[Any]]:
    """While the body of the `with` waits for a lock, collect the sessions that hold this lock. PostgreSQL's error
    after the wait does not name them."""
    seen: list[Any] = []
    watching = asyncio.create_task(_watch(find_blockers, seen))
    try:
        yield seen
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def _watch(find_blockers: FindBlockers, seen: list[Any]) -> None:
    while True:
        await asyncio.sleep(TIMEOUT / CHECKS)
        try:
            seen[:] = await find_blockers() or seen
        except HooklineError:
            return  # stop searching: the error message names the blockers that were found before, if any


def _describe(seen: list[Any]) -> str:
    if not seen:
        return "a lock"
    return f"a lock on {seen[0]['wanted']} held by {', '.join(_holder(row) for row in seen)}"


def _holder(row: Any) -> str:
    """Describe what holds the lock: a session, or a prepared transaction, which has no session. The application and
    the role are left out if PostgreSQL hides them, as it may do for sessions of other roles."""
    if not row["pid"]:
        return "a prepared transaction"
    named = ", ".join(filter(None, (row["application"], row["role"])))
    return f"pid {row['pid']} ({named})" if named else f"pid {row['pid']}"
