"""Handles accepted events in tasks of one event loop. The handler's writes and the mark "done" are one transaction."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any

from hookline import clock
from hookline.errors import Conflict, InvalidInput
from hookline.model import RetryPolicy
from hookline.receive.inbox import adapters, plans
from hookline.receive.inbox.adapters.base import AsyncConnection
from hookline.receive.inbox.handling import (
    CLEAN_EVERY,
    COMMITTED,
    POLICY,
    RECONNECT,
    Handler,
    Lost,
    RolledBack,
    checked_connect,
    last_line,
    rules,
)
from hookline.receive.inbox.model import Claim
from hookline.receive.inbox.upkeep import KEPT, STEP
from hookline.receive.inbox.wake import Bell
from hookline.receive.inbox.worker import log
from hookline.rules import backoff


class AsyncInboxWorker:
    """`InboxWorker` on asyncpg, psycopg's AsyncConnection, or SQLAlchemy's async ones. Handlers may be async or not.

        async with AsyncInboxWorker(pool.acquire, {"order.paid": ship}, tasks=4):
            ...

    connect   called once for each task; gives a connection, or an awaitable or async context manager that does
    tasks     as many handlers as may run at once

    A task that is cancelled leaves its event to another one after the lease; `stop` lets handlers end.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        handlers: Mapping[str, Handler],
        *,
        tasks: int = 1,
        policy: RetryPolicy = POLICY,
        lease: float = 60.0,
        poll: float = 0.2,
        keep: float | timedelta | None = KEPT,
    ) -> None:
        if tasks < 1:
            raise InvalidInput("at least one", field="tasks")
        self._connect = checked_connect(connect)
        self._count = tasks
        self._rules = rules(handlers, policy=policy, lease=lease, poll=poll, keep=keep)
        self._tasks: list[asyncio.Task[None]] = []
        self._bells: list[tuple[asyncio.Event, Bell]] = []
        self._stopping = asyncio.Event()
        self._clean_at = 0.0

    def start(self) -> None:
        """In tasks of the running loop."""
        if self._tasks:
            raise Conflict("this worker has been started already")
        loop = asyncio.get_running_loop()
        self._clean_at = clock.monotonic() + clock.chance.uniform(0.0, 60.0)
        for number in range(self._count):
            woken = asyncio.Event()
            self._bells.append((woken, Bell(_ringer(loop, woken))))
            self._tasks.append(loop.create_task(self._work(woken), name=f"hookline-inbox-{number}"))

    async def run(self) -> None:
        """Start, and return when `stop` was called and every handler has ended. Cancelled, it cancels them."""
        self.start()
        try:
            await asyncio.gather(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()

    async def stop(self) -> None:
        """Take no more events, and wait for the handlers that run."""
        self._stopping.set()
        for woken, _ in self._bells:
            woken.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def drain(self) -> int:
        """Handle what is due now, and return how many there were."""
        async with _opened(self._connect) as conn:
            on = adapters.of_async(conn)
            handled = 0
            while await self._handle_next(on, conn):
                handled += 1
            return handled

    async def __aenter__(self) -> AsyncInboxWorker:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # ── the loop of one task ──────────────────────────────────────────────────────────────────────────────────────

    async def _work(self, woken: asyncio.Event) -> None:
        failures = 0

        def went_well() -> None:
            nonlocal failures
            failures = 0

        while not self._stopping.is_set():
            try:
                async with _opened(self._connect) as conn:
                    await self._serve(conn, woken, went_well)
            except Exception as error:  # the database, or what connects to it: whatever it is, it may pass
                log.warning("the inbox cannot be worked on now, trying again: %s", last_line(error))
                await _set_within(self._stopping, backoff.delay(RECONNECT, failures, 0.0, clock.chance))
                failures += 1

    async def _serve(self, conn: Any, woken: asyncio.Event, went_well: Callable[[], None]) -> None:
        on = adapters.of_async(conn)
        looks = 0
        while not self._stopping.is_set():
            found = await self._handle_next(on, conn)
            went_well()
            await self._clean_if_due(on)
            if found:
                looks = 0
                continue
            rang = await _set_within(woken, self._rules.pause(looks, clock.chance))
            woken.clear()
            looks = 0 if rang else looks + 1

    async def _clean_if_due(self, on: AsyncConnection) -> None:
        """One step, in one task; it stays due until a step has found nothing."""
        keep, due = self._rules.keep, self._clean_at
        if keep is None or clock.monotonic() < due:
            return
        self._clean_at = clock.monotonic() + CLEAN_EVERY  # before the first await: no other task starts the same
        async with on.transaction():
            gone = await plans.run_async(on, plans.clean(on.engine, clock.wall(), keep, STEP))
        if gone:
            self._clean_at = due

    # ── one event ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _handle_next(self, on: AsyncConnection, conn: Any) -> bool:
        async with on.transaction():
            await on.check()
            token = secrets.token_hex(12)
            claimed = await plans.run_async(on, plans.claim(on.engine, clock.wall(), token, self._rules.lease))
        if claimed is None:
            return False
        if self._rules.is_used_up(claimed):
            async with on.transaction():
                await plans.run_async(on, self._rules.used_up(on.engine, clock.wall(), claimed))
            return True
        begun = clock.monotonic()
        try:
            await self._handle(on, conn, claimed)
        except Lost:
            log.warning("%r: the claim ended before the handler began; another worker has it", claimed.event.key)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a handler is somebody else's code
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            await self._failed(on, claimed, error, claimed.age + clock.monotonic() - begun)
        return True

    async def _handle(self, on: AsyncConnection, conn: Any, claimed: Claim) -> None:
        async with on.transaction():
            if not await plans.run_async(on, plans.finish(on.engine, clock.wall(), claimed)):
                raise Lost
            result = self._rules.handler_of(claimed.event)(conn, claimed.event)
            if inspect.isawaitable(result):
                await result
            if not await plans.run_async(on, plans.is_finished(on.engine, claimed)):
                raise RolledBack("the handler rolled its transaction back: raise an error instead")

    async def _failed(self, on: AsyncConnection, claimed: Claim, error: BaseException, age: float) -> None:
        event = claimed.event
        log.warning("%r: attempt %d failed: %s", event.key, event.attempt, last_line(error), exc_info=error)
        async with on.transaction():
            plan = self._rules.failed(on.engine, clock.wall(), claimed, error, age, clock.chance)
            noted = await plans.run_async(on, plan)
        if not noted:
            log.error(COMMITTED, event.key)


def _ringer(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> Callable[[], None]:
    def ring() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(woken.set)

    return ring


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


def _is_cancelled() -> bool:
    """Whether it is this task that is to end, and not something that the handler waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@asynccontextmanager
async def _opened(connect: Callable[[], Any]) -> AsyncIterator[Any]:
    """A connection, or what a pool's context manager lends. SQLAlchemy's connections are context managers that begin there."""
    made = connect()
    if inspect.iscoroutine(made):
        made = await made
    if hasattr(type(made), "__aenter__"):
        async with made as conn:
            yield conn
    else:
        try:
            yield made
        finally:
            closed = made.close()
            if inspect.isawaitable(closed):
                await closed
