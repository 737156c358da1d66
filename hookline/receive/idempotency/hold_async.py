"""Idempotency keys that are held while a handler runs, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hookline.receive.idempotency.core import Claim
from hookline.receive.idempotency.hold import RENEW, RETRY, BaseHold, BaseHolder, log
from hookline.receive.idempotency.keys import AsyncKeyStore
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.recording import Recording
from hookline.receive.idempotency.settings import IdempotencySettings

__all__ = ["AsyncHold", "AsyncHolder"]

T = TypeVar("T")


class AsyncHold(BaseHold):
    """A held key of an async middleware."""

    def __init__(self, holder: AsyncHolder, claim: Claim) -> None:
        super().__init__(holder, claim)
        self._holder = holder
        self._timer: asyncio.TimerHandle | None = None

    async def settle(self, recording: Recording) -> None:
        """Save the recorded response, or free the key if the response is not kept. Only the first call counts."""
        await self._settle(recording)

    async def release(self) -> None:
        await self._release()

    async def renew(self) -> bool | None:
        """Return False if there is nothing left to renew, and None if the store was not available."""
        return await self._renew()

    async def work(self) -> None:
        """Renew the lease or save the response, and schedule the next time."""
        outcome = await self._work()
        if outcome is not False and (not self.is_over or self.unsaved is not None):
            self._schedule(RENEW if outcome else RETRY)

    def renew_later(self) -> None:
        self._schedule(RENEW)

    def _save_later(self) -> None:
        """Try again later: the handler may hold the connection that the store waits for until its response is sent."""
        self._schedule(RETRY)

    def _schedule(self, part: float) -> None:
        """Use a timer, not a task: most handlers end before it fires."""
        pause = self._settings.lease * part
        self._timer = asyncio.get_running_loop().call_later(pause, self._holder.spawn, self.work)

    def _stop_renewing(self) -> None:
        """A renewal that has started is not cancelled: a cancelled call would cost the store a connection."""
        if self._timer is not None:
            self._timer.cancel()


class AsyncHolder(BaseHolder):
    """Takes keys of an async store, and keeps tasks that must not be cancelled with a request."""

    is_async = True

    def __init__(self, store: AsyncKeyStore, settings: IdempotencySettings) -> None:
        super().__init__(store, settings)
        self._tasks: set[asyncio.Task[Any]] = set()  # the event loop keeps only weak references to tasks

    async def take(self, claim: Claim) -> AsyncHold | None:
        """Take the key. Return None if the handler is to run without protection. Raise `Answered` if it must not run."""
        return await self._take(AsyncHold(self, claim))

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
