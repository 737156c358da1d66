"""The loop of a worker, and the steps for one event. Threads and asyncio tasks run the same code.

The handler's writes and the state "done" are committed in one transaction.
"""

from __future__ import annotations

import logging
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from hookline import clock
from hookline.errors import Conflict, HooklineError, InvalidInput
from hookline.model.policy import RetryPolicy
from hookline.model.states import Reason
from hookline.outbox.adapters.base import Adapter
from hookline.outbox.coroutines import as_async, settled
from hookline.receive.inbox import queries
from hookline.receive.inbox.checks import check_age
from hookline.receive.inbox.handling import Handler, Rules, WorkerOptions, last_line
from hookline.receive.inbox.model import Claim
from hookline.receive.inbox.queries import STEP
from hookline.receive.inbox.wake import IdleWorker
from hookline.rules import backoff

RECONNECT = RetryPolicy(base=0.2, factor=2.0, cap=10.0)
CLEAN_EVERY = 3600.0  # seconds between two clean-ups

log = logging.getLogger("hookline.inbox")


class _ClaimLost(Exception):
    """The claim expired, and another worker has the event now. That worker runs the handler."""


class RolledBack(HooklineError):
    """The handler rolled back the transaction by itself, and returned without an error."""


class WorkerLoop(ABC):
    """The code that the workers for threads and for asyncio share.

    A thread runs these coroutines without an event loop. There they may block, but they never suspend.
    """

    _event: ClassVar[type]  # makes a `threading.Event` or an `asyncio.Event`
    _adapter: ClassVar[staticmethod[[Any], Adapter]]

    def __init__(
        self, connect: Callable[[], Any], handlers: Mapping[str, Handler], options: WorkerOptions, **count: int
    ) -> None:
        """`count` is exactly one argument, `threads` or `tasks`. Its value is the number of handlers that may run at
        once."""
        [(field, self._count)] = count.items()
        if self._count < 1:
            raise InvalidInput("must be at least 1", field=field)
        if not callable(connect):
            raise InvalidInput("give a function that opens a connection, one for each thread or task", field="connect")
        self._connect = connect
        self._rules = Rules(handlers=handlers, **options)
        self._idle: list[IdleWorker] = []
        self._running: list[Any] = []  # threads, or tasks of asyncio
        self._stopping: Any = self._event()
        self._cleaning = threading.Lock()
        self._clean_at = 0.0

    @abstractmethod
    def _started(self, name: str) -> Any:
        """Start a thread or a task that calls `_work`, and return it."""

    @abstractmethod
    def _is_manager(self, made: Any) -> bool:
        """Return whether `made`, the result of `connect`, is a context manager that lends a connection (of a pool)."""

    @abstractmethod
    async def _wait(self, event: Any, seconds: float) -> bool:
        """Wait until the event is set. Return False if that takes longer than `seconds`."""

    @abstractmethod
    async def _complete(self, result: Any) -> None:
        """Wait for the result of a handler, if it is awaitable."""

    def _is_cancelled(self, error: BaseException) -> bool:
        """Return whether the error ends the worker itself, and not only the handler."""
        return isinstance(error, KeyboardInterrupt)

    async def _new_connection(self) -> Any:
        return self._connect()

    def start(self) -> None:
        """Start the threads, or the tasks in the running event loop.

        Threads end with the process. If a thread has not finished its event by then, another worker gets the event
        after the lease of the event has expired.
        """
        if self._running:
            raise Conflict("this worker has been started already")
        self._clean_at = clock.monotonic() + clock.chance.uniform(0.0, 60.0)
        for number in range(self._count):
            self._running.append(self._started(f"hookline-inbox-{number}"))

    def _stop(self) -> None:
        """Tell all threads or tasks to take no more events."""
        self._stopping.set()
        for idle in self._idle:
            idle.wake()

    async def _drain(self) -> int:
        handled = 0
        async with self._opened() as conn:
            on = self._adapter(conn)
            while await self._handle_next(on, conn):
                handled += 1
        return handled

    async def _work(self, woken: Any) -> None:
        """Handle events until the worker stops. Open a new connection after an error."""
        failures = 0
        while not self._stopping.is_set():
            try:
                async with self._opened() as conn:
                    on, idle_polls = self._adapter(conn), 0
                    while not self._stopping.is_set():
                        found = await self._handle_next(on, conn)
                        failures = 0
                        await self._clean_if_due(on)
                        if found:
                            idle_polls = 0
                            continue
                        was_woken = await self._wait(woken, self._rules.pause(idle_polls, clock.chance))
                        woken.clear()
                        idle_polls = 0 if was_woken else idle_polls + 1
            except Exception as error:  # an error of the database or of `connect`, which may be temporary
                log.warning("the inbox cannot be worked on now, trying again: %s", last_line(error))
                await self._wait(self._stopping, backoff.delay(RECONNECT, failures, 0.0, clock.chance))
                failures += 1

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Any]:
        """Open a connection, and close it after the block."""
        made = await self._new_connection()
        if self._is_manager(made):
            async with as_async(made) as conn:
                yield conn
            return
        try:
            yield made
        finally:
            await settled(made.close())

    async def _clean_if_due(self, on: Adapter) -> None:
        """Run one clean-up step, in one thread or task at a time.

        The clean-up stays due until a step deletes nothing.
        """
        keep = self._rules.keep
        if keep is None or clock.monotonic() < self._clean_at or not self._cleaning.acquire(blocking=False):
            return
        try:
            async with on.transaction():
                deleted = await queries.clean(on, check_age(keep), STEP)
            if not deleted:
                self._clean_at = clock.monotonic() + CLEAN_EVERY
        finally:
            self._cleaning.release()

    # ── one event ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _handle_next(self, on: Adapter, conn: Any) -> bool:
        """Claim the next event and run its handler. Return False if no event is due."""
        async with on.transaction():
            await on.check()
            claimed = await queries.claim(on, secrets.token_hex(12), self._rules.lease)
        if claimed is None:
            return False
        if self._rules.is_exhausted(claimed.event):
            async with on.transaction():
                attempts = self._rules.policy.max_attempts
                await queries.bury(on, claimed, queries.DIED, Reason.ATTEMPTS_EXHAUSTED, attempts)
            return True
        started = clock.monotonic()
        try:
            await self._handle(on, conn, claimed)
        except _ClaimLost:
            log.warning("%r: the claim ended before the handler began; another worker has it", claimed.event.key)
        except BaseException as error:  # a handler may raise anything; asyncio and gevent raise BaseExceptions
            if self._is_cancelled(error):
                raise
            await self._failed(on, claimed, error, claimed.age + clock.monotonic() - started)
        return True

    async def _handle(self, on: Adapter, conn: Any, claimed: Claim) -> None:
        async with on.transaction():
            if not await queries.finish(on, claimed):
                raise _ClaimLost
            await self._complete(self._rules.handler_of(claimed.event)(conn, claimed.event))
            if not await queries.is_finished(on, claimed):
                raise RolledBack("the handler rolled its transaction back: raise an error instead")

    async def _failed(self, on: Adapter, claimed: Claim, error: BaseException, age: float) -> None:
        event, line = claimed.event, last_line(error)
        log.warning("%r: attempt %d failed: %s", event.key, event.attempt, line, exc_info=error)
        delay_or_reason = self._rules.judge(event.attempt, age, clock.chance)
        async with on.transaction():
            if isinstance(delay_or_reason, Reason):
                is_recorded = await queries.bury(on, claimed, line, delay_or_reason, event.attempt)
            else:
                is_recorded = await queries.retry(on, claimed, line, delay_or_reason)
        # A failure cannot be recorded in two cases. Either the handler committed by itself, and so stored the mark
        # "done" that `_handle` sets before the handler runs. Or the lease expired, and another worker has the event.
        if not is_recorded:
            log.error(
                "%r: is not retried: the handler committed by itself (leave that to the worker), or another worker has it",
                event.key,
            )
