"""The worker that handles accepted events in tasks of one event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Unpack

from hookline.outbox import adapters
from hookline.outbox.coroutines import settled
from hookline.receive.inbox.handling import Handler, WorkerOptions
from hookline.receive.inbox.wake import IdleWorker
from hookline.receive.inbox.worker_loop import WorkerLoop


class AsyncInboxWorker(WorkerLoop):
    """`InboxWorker` for async connections of asyncpg, psycopg or SQLAlchemy. Handlers may be async or not.

        async with AsyncInboxWorker(pool.acquire, {"order.paid": ship}, tasks=4):
            ...

    connect   called in each task, and again after an error; returns a connection, a coroutine that returns a
              connection, or an async context manager that lends a connection
    tasks     how many handlers may run at once

    If a task is cancelled while it handles an event, another worker gets the event when the lease expires. `stop`
    waits for running handlers.
    """

    _event = asyncio.Event
    _adapter = staticmethod(adapters.of_async)

    def __init__(
        self,
        connect: Callable[[], Any],
        handlers: Mapping[str, Handler],
        *,
        tasks: int = 1,
        **options: Unpack[WorkerOptions],
    ) -> None:
        super().__init__(connect, handlers, options, tasks=tasks)

    async def run(self) -> None:
        """Start the tasks. Return after `stop` was called and all handlers have ended. If `run` is cancelled, it
        cancels the tasks."""
        self.start()
        try:
            await asyncio.gather(*self._running)
        finally:
            for task in self._running:
                task.cancel()

    async def stop(self) -> None:
        """Take no more events, and wait for running handlers."""
        self._stop()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def drain(self) -> int:
        """Handle all events that are due now. Return their number."""
        return await self._drain()

    async def __aenter__(self) -> AsyncInboxWorker:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _started(self, name: str) -> asyncio.Task[None]:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(woken.set)

        self._idle.append(IdleWorker(wake))
        return loop.create_task(self._work(woken), name=name)

    async def _new_connection(self) -> Any:
        made = self._connect()
        return await made if inspect.iscoroutine(made) else made

    def _is_manager(self, made: Any) -> bool:
        """Return True for every async context manager. SQLAlchemy's `AsyncConnection` is one: it connects when it is
        entered."""
        return hasattr(type(made), "__aenter__")

    async def _wait(self, event: asyncio.Event, seconds: float) -> bool:
        with suppress(TimeoutError):
            return await asyncio.wait_for(event.wait(), seconds)
        return False

    async def _complete(self, result: Any) -> None:
        await settled(result)

    def _is_cancelled(self, error: BaseException) -> bool:
        """Return True only if this task is cancelled.

        A CancelledError may also come from something that the handler awaited.
        """
        task = asyncio.current_task()
        is_task_cancelled = task is not None and task.cancelling() > 0
        return super()._is_cancelled(error) or (isinstance(error, asyncio.CancelledError) and is_task_cancelled)
