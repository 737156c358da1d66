"""Wait for outbox rows of a PostgreSQL database. This needs a connection and no other part of the store.

One relay of each database is the leader and holds a session lock. Only the leader listens to publishers. While it
sleeps it holds a second lock, so that publishers know to notify it (see `outbox/sql/postgres.sql`). Other relays poll
once a second, and one becomes the leader if the leader dies. A lost session releases both locks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import structlog

from hookline.clock import monotonic
from hookline.errors import HooklineError
from hookline.store.postgres.connection import close

log = structlog.get_logger()

Session = Any  # asyncpg has no types

POLL = 0.04  # default seconds between two polls of the outbox by the leader
STANDBY = 1.0  # seconds between two polls of the outbox by a relay that is not the leader
# A leader that wants to sleep takes a lock. It cannot take the lock while a publisher that is about to commit holds it.
# `AWAKE` is the seconds until the leader tries again. They double with each failed try, up to the poll interval.
AWAKE = 0.005
CHECK_EVERY = 10.0  # seconds of sleep after which the session is checked
RECONNECT = 1.0  # seconds before a failed connection is tried again

_CHANNEL = "hookline_outbox"
_LEAD = "SELECT pg_try_advisory_lock(1214542, 2)"
_SLEEP = "SELECT pg_try_advisory_lock(1214542, 3)"
_RELEASE = "SELECT pg_advisory_unlock(1214542, 3)"
_ANSWER = 5.0  # maximum seconds to wait for an answer of the session
_LOST = (
    HooklineError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)


class OutboxWatch:
    """Waits for outbox rows. If its session with the database fails, `wait` returns after the poll interval, so
    that the relay polls."""

    def __init__(self, connect: Callable[[], Awaitable[Session]], *, poll: float = POLL) -> None:
        self._connect = connect
        self._poll = poll
        self._session: Session | None = None
        self._leads = False
        self._asleep = False
        self._tries = 0  # how often in a row `_sleep` could not take the lock, because a publisher held it
        self._notified = asyncio.Event()
        self._releasing: asyncio.Task[None] | None = None
        self._connect_at = 0.0  # monotonic time of the next try to connect
        self._check_at = 0.0
        self._logged = False

    async def wait(self, timeout: float) -> None:
        """Wait until there may be rows or the timeout ends. It returns at once if the relay must check the outbox once
        more before it may sleep."""
        rest = min(timeout, await self._prepare_sleep())
        try:
            async with asyncio.timeout(rest):
                await self._notified.wait()
        except TimeoutError:
            return
        self._notified.clear()
        self._release_soon()

    async def close(self) -> None:
        """Release the locks, so that another relay becomes the leader. A later call of `wait` connects again."""
        await self._wait_released()
        session = self._forget()
        if session is not None and not session.is_closed():
            await close(session)

    # ── falling asleep ──

    async def _prepare_sleep(self) -> float:
        """Prepare to sleep and return the seconds until the next poll."""
        await self._wait_released()
        if monotonic() < self._connect_at:
            return self._poll
        try:
            session = await self._connected()
            if self._asleep:
                return await self._keep_sleeping(session)
            if not self._leads and not await self._lead(session):
                return max(STANDBY, self._poll)
            return await self._sleep(session)
        except _LOST as error:
            self._drop()
            self._connect_at = monotonic() + RECONNECT
            self._log_once(error)
            return self._poll
        except asyncio.CancelledError:
            self._drop()  # the interrupted statement may have taken a lock, which ends with the session
            raise

    async def _lead(self, session: Session) -> bool:
        """Try to become the leader and listen. Only the leader listens, because one notification is enough."""
        if await session.fetchval(_LEAD, timeout=_ANSWER):
            async with asyncio.timeout(_ANSWER):
                await session.add_listener(_CHANNEL, self._on_notify)
            self._leads = True
        return self._leads

    async def _sleep(self, session: Session) -> float:
        """Try to take the lock that tells publishers that this leader sleeps. Return the seconds until the next poll.

        The leader does not wait for the lock. While it waited, it could not read the notifications of publishers.
        """
        self._notified.clear()
        self._asleep = await session.fetchval(_SLEEP, timeout=_ANSWER)
        if self._asleep:
            self._tries = 0
            self._check_at = monotonic() + CHECK_EVERY
            return 0.0  # poll once more: publishers that committed before the leader slept did not notify it
        self._tries += 1
        return min(self._poll, AWAKE * 2.0 ** min(self._tries - 1, 8))

    async def _keep_sleeping(self, session: Session) -> float:
        """Return the seconds until the next poll of a relay that already sleeps. A broken network causes no error, so
        this method checks the session every `CHECK_EVERY` seconds."""
        if monotonic() >= self._check_at:
            await session.fetchval("SELECT 1", timeout=_ANSWER)
            self._check_at = monotonic() + CHECK_EVERY
        return self._poll

    def _release_soon(self) -> None:
        """Release the lock that tells publishers that the leader (this relay) sleeps and must be notified. The release
        runs in the background, because a busy relay must not wait for it."""
        if self._asleep:
            self._asleep = False
            self._releasing = asyncio.get_running_loop().create_task(self._release_sleep_lock())

    async def _release_sleep_lock(self) -> None:
        if self._session is None:
            return
        try:
            await self._session.execute(_RELEASE, timeout=_ANSWER)
        except (*_LOST, asyncio.CancelledError):
            self._drop()

    async def _wait_released(self) -> None:
        """Wait until the lock that `_release_soon` releases in the background is released, because a session runs one
        statement at a time. If the caller is cancelled, the release goes on."""
        if self._releasing is not None:
            await asyncio.shield(self._releasing)
            self._releasing = None

    # ── the session ──

    async def _connected(self) -> Session:
        if self._session is None or self._session.is_closed():
            self._forget()
            session = await self._connect()
            self._session = session
            session.add_termination_listener(self._on_termination)
            self._logged = False
        return self._session

    def _on_notify(self, *_: object) -> None:
        self._notified.set()

    def _on_termination(self, session: Session) -> None:
        if session is self._session:
            self._forget()
        self._notified.set()

    def _drop(self) -> None:
        session = self._forget()
        if session is not None:
            session.terminate()

    def _forget(self) -> Session | None:
        session, self._session = self._session, None
        self._leads = self._asleep = False
        return session

    def _log_once(self, error: BaseException) -> None:
        """Log the error once until the session works again. Meanwhile the relay polls, which is slower."""
        if not self._logged:
            self._logged = True
            log.warning("outbox_polled_only", error=str(error).partition("\n")[0] or type(error).__name__)
