"""The relay's sleep: when rows may be in the outbox of a PostgreSQL database. It needs a connection and nothing of the store.

Of all relays of a database one is the leader, by a session lock: it alone listens to publishers, and says so with a second
lock while it sleeps (see `outbox/sql/postgres.sql`). The others look once a second, and one of them leads if it dies. A session
that is lost, for whatever reason, gives both locks back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import structlog

from hookline.clock import monotonic
from hookline.errors import HooklineError

log = structlog.get_logger()

Session = Any  # asyncpg has no types

POLL = 0.04  # seconds between looks of a leader, asleep or not listening at all
STANDBY = 1.0  # of those that do not lead
AWAKE = 0.005  # of a leader that may not sleep yet: somebody is about to commit. It doubles up to `POLL`
ASK = 10.0  # seconds of sleep before the session is asked whether it is still there
AGAIN = 1.0  # seconds before a session that could not be had is tried again

_CHANNEL = "hookline_outbox"
_LEAD = "SELECT pg_try_advisory_lock(1214542, 2)"
_SLEEP = "SELECT pg_try_advisory_lock(1214542, 3)"
_ROUSE = "SELECT pg_advisory_unlock(1214542, 3)"
_ANSWER = 5.0  # seconds that the session has to answer
_LOST = (
    HooklineError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)


class OutboxWatch:
    """Whatever is wrong with its session, `wait` ends: a relay without it only polls."""

    def __init__(self, connect: Callable[[], Awaitable[Session]], *, poll: float = POLL) -> None:
        self._connect = connect
        self._poll = poll
        self._session: Session | None = None
        self._leads = False
        self._asleep = False
        self._tries = 0  # to fall asleep, in a row
        self._rang = asyncio.Event()
        self._rousing: asyncio.Task[None] | None = None
        self._connect_at = 0.0  # monotonic: not before
        self._ask_at = 0.0
        self._said = False

    async def wait(self, timeout: float) -> None:
        """Until there may be rows, or the time is over; sooner if somebody has to look once more before it can be slept."""
        rest = min(timeout, await self._lie_down())
        try:
            async with asyncio.timeout(rest):
                await self._rang.wait()
        except TimeoutError:
            return
        self._rang.clear()
        self._rouse()

    async def close(self) -> None:
        """Give the locks back, so that another relay leads; a later `wait` begins anew."""
        await self._roused()
        session = self._forget()
        if session is not None and not session.is_closed():
            try:
                await session.close(timeout=_ANSWER)
            except _LOST:
                session.terminate()

    # ── falling asleep ──

    async def _lie_down(self) -> float:
        """How long to wait before the next look."""
        await self._roused()
        if monotonic() < self._connect_at:
            return self._poll
        try:
            session = await self._connected()
            if self._asleep:
                return await self._sleep_on(session)
            if not self._leads and not await self._lead(session):
                return max(STANDBY, self._poll)
            return await self._sleep(session)
        except _LOST as error:
            self._drop()
            self._connect_at = monotonic() + AGAIN
            self._say(error)
            return self._poll
        except asyncio.CancelledError:
            self._drop()  # it may hold a lock that nobody knows of
            raise

    async def _lead(self, session: Session) -> bool:
        """Only the leader listens: one wake-up is enough."""
        if await session.fetchval(_LEAD, timeout=_ANSWER):
            await session.add_listener(_CHANNEL, self._ring)
            self._leads = True
        return self._leads

    async def _sleep(self, session: Session) -> float:
        """Never waits for the lock: in the queue for it we would hear nothing, and everybody else would notify."""
        self._rang.clear()
        self._asleep = await session.fetchval(_SLEEP, timeout=_ANSWER)
        if self._asleep:
            self._tries = 0
            self._ask_at = monotonic() + ASK
            return 0.0  # look once more: whoever committed until now has told nobody
        self._tries += 1
        return min(self._poll, AWAKE * 2.0 ** min(self._tries - 1, 8))

    async def _sleep_on(self, session: Session) -> float:
        """A network that has failed says nothing: the session is asked now and then whether it is still there."""
        if monotonic() >= self._ask_at:
            await session.fetchval("SELECT 1", timeout=_ANSWER)
            self._ask_at = monotonic() + ASK
        return self._poll

    def _rouse(self) -> None:
        """Nobody needs to notify a relay that is awake. Beside its work, which does not wait for the lock's return."""
        if self._asleep:
            self._asleep = False
            self._rousing = asyncio.get_running_loop().create_task(self._give_back())

    async def _give_back(self) -> None:
        if self._session is None:
            return
        try:
            await self._session.execute(_ROUSE, timeout=_ANSWER)
        except (*_LOST, asyncio.CancelledError):
            self._drop()

    async def _roused(self) -> None:
        """A session runs one statement at a time. Shielded: a caller that gives up does not stop it half-way."""
        if self._rousing is not None:
            await asyncio.shield(self._rousing)
            self._rousing = None

    # ── the session ──

    async def _connected(self) -> Session:
        if self._session is None or self._session.is_closed():
            self._forget()
            session = await self._connect()
            self._session = session
            session.add_termination_listener(self._lost)
            self._said = False
        return self._session

    def _ring(self, *_: object) -> None:
        self._rang.set()

    def _lost(self, session: Session) -> None:
        if session is self._session:
            self._forget()
        self._rang.set()

    def _drop(self) -> None:
        session = self._forget()
        if session is not None:
            session.terminate()

    def _forget(self) -> Session | None:
        session, self._session = self._session, None
        self._leads = self._asleep = False
        return session

    def _say(self, error: BaseException) -> None:
        """Once, until it can be had again: the relay works on, only slower."""
        if not self._said:
            self._said = True
            log.warning("outbox_polled_only", error=str(error).partition("\n")[0] or type(error).__name__)
