"""Idempotency keys that are held while a handler runs, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from hookline.receive.idempotency.hold import RENEW, RETRY, BaseHolder, Hold, log
from hookline.receive.idempotency.keys import AsyncKeyStore
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.settings import IdempotencySettings

T = TypeVar("T")


class AsyncHolder(BaseHolder):
    """Takes keys of an async store, and keeps tasks that must not be cancelled with a request."""

    is_async = True

    def __init__(self, store: AsyncKeyStore, settings: IdempotencySettings) -> None:
        super().__init__(store, settings)
        self._timers: dict[Hold, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[Any]] = set()  # the event loop keeps only weak references to tasks

    def work_later(self, hold: Hold) -> None:
        """Wait before a retry: the handler may hold the connection that the store waits for until its response is sent."""
        self._schedule(hold, RENEW if hold.unsaved is None else RETRY)

    def stop_renewing(self, hold: Hold) -> None:
        """A renewal that has started is not cancelled: a cancelled call would cost the store a connection."""
        if (timer := self._timers.pop(hold, None)) is not None:
            timer.cancel()

    def _schedule(self, hold: Hold, part: float) -> None:
        """Use a timer, not a task: most handlers end before it fires."""
        pause, work = self.settings.lease * part, partial(self.work_on, hold)
        self._timers[hold] = asyncio.get_running_loop().call_later(pause, self.spawn, work)

    async def work_on(self, hold: Hold) -> None:
        """Renew the lease or save the response, and schedule the next time."""
        self._timers.pop(hold, None)
        outcome = await hold.work()
        if outcome is not False and (not hold.is_over or hold.unsaved is not None):
            self._schedule(hold, RENEW if outcome else RETRY)

    def spawn(self, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def outlive(self, work: Callable[[], Coroutine[Any, Any, T]], on_cancel: Callable[[], bool]) -> T:
        """Run `work` to its end, even if the server cancels the request because the client went away.

        If `on_cancel` returns True, the work is cancelled too.
        """
        task = self.spawn(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if on_cancel():
                task.cancel()
            task.add_done_callback(_log_failure)  # nobody awaits the task any more
            raise

    def _clean_in_background(self) -> None:
        self.spawn(self._clean)


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None and not isinstance(fault, Answered):
        log.error("handler failed after its client went away", exc_info=fault)
