"""A key that is held while the handler runs, for asyncio."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hookline.receive.idempotency.core import Claim, answer_to
from hookline.receive.idempotency.hold import AGAIN, BATCH, BEAT, OWED, Hourly, check_store, note_outage, note_takeover
from hookline.receive.idempotency.keys import AsyncKeyStore, Fresh, KeyStoreUnavailable, StoredResponse
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.recording import Recording
from hookline.receive.idempotency.settings import IdempotencySettings

__all__ = ["AsyncHold", "AsyncHolder"]

T = TypeVar("T")

log = logging.getLogger("hookline.receive")


class AsyncHold:
    """Ours, until it is ended."""

    def __init__(self, holder: AsyncHolder, claim: Claim, token: bytes) -> None:
        self._holder = holder
        self.claim = claim
        self.token = token
        self.is_over = False
        self._timer: asyncio.TimerHandle | None = None

    async def settle(self, recording: Recording) -> None:
        """Keep what was recorded, or free the key if it is not to be kept. Only the first end counts."""
        kept = recording.result()
        if kept is None:
            await self.release()
        elif self._end():
            await self._keep(kept)

    async def release(self) -> None:
        if not self._end():
            return
        try:
            await self._holder.store.release(self.claim.key, self.token)
        except KeyStoreUnavailable as fault:
            log.warning("idempotency key not released, its lease has to run out: %s", fault)

    def beat(self, part: float = BEAT) -> None:
        """A timer, not a task: most handlers are done before it rings."""
        pause = self._holder.settings.lease * part
        self._timer = asyncio.get_running_loop().call_later(pause, self._holder.spawn, self._renew)

    async def renew(self) -> bool | None:
        """False: there is nothing left to renew. None: the store could not be asked, and the lease may outlive that."""
        lease = self._holder.settings.lease
        try:
            return await self._holder.store.renew(self.claim.key, self.token, lease) or await self._retake()
        except KeyStoreUnavailable as fault:
            log.warning("lease of an idempotency key not renewed: %s", fault)
        except Exception:
            log.exception("lease of an idempotency key not renewed")
        return None

    async def _renew(self) -> None:
        held = await self.renew()
        if self.is_over:
            return  # a call under way is not cancelled for this: that would cost the store a connection
        if held is False:
            log.error("lease of an idempotency key lost while its handler runs: a copy may run it at the same time")
        else:
            self.beat(BEAT if held else AGAIN)

    def _end(self) -> bool:
        if self.is_over:
            return False
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        return True

    async def _keep(self, kept: StoredResponse) -> None:
        """The work is done and its caller hears of it, even where the next one cannot yet."""
        if await self._offer(kept) is None:
            return
        if (fault := await self._offer(kept)) is not None:  # a connection that broke is another one the second time
            log.error("answer not kept, a copy may run the handler again: %s", fault)
            self._holder.spawn(lambda: self._keep_later(kept))

    async def _keep_later(self, kept: StoredResponse) -> None:
        """A handler whose session goes on until its answer is sent may have the connection that the store is waiting for."""
        ends = time.monotonic() + OWED
        while time.monotonic() < ends:
            await asyncio.sleep(self._holder.settings.lease / 6)
            if await self._offer(kept) is None:
                return

    async def _offer(self, kept: StoredResponse) -> KeyStoreUnavailable | None:
        try:
            if not (await self._finish(kept) or (await self._begin() and await self._finish(kept))):
                log.error("answer not kept: the lease of its idempotency key was lost")
        except KeyStoreUnavailable as fault:
            return fault
        return None

    async def _retake(self) -> bool:
        """A store that forgot the key (evicted, restarted without its log) gives it again, unless somebody else has it now."""
        return not self.is_over and await self._begin() and not await self._is_left()

    async def _is_left(self) -> bool:
        """It ended meanwhile: what was just taken must not stay behind."""
        if self.is_over:
            await self._holder.store.release(self.claim.key, self.token)
        return self.is_over

    async def _begin(self) -> bool:
        claim, lease = self.claim, self._holder.settings.lease
        answer = await self._holder.store.begin(claim.key, claim.fingerprint, token=self.token, lease=lease)
        return isinstance(answer, Fresh)

    async def _finish(self, kept: StoredResponse) -> bool:
        return await self._holder.store.finish(self.claim.key, self.token, kept, self._holder.settings.ttl)


class AsyncHolder:
    """One per middleware: takes keys, and keeps hold of the tasks that must not be cancelled with a request."""

    def __init__(self, store: AsyncKeyStore, settings: IdempotencySettings) -> None:
        check_store(store, is_async=True)
        self.store = store
        self.settings = settings
        self._hourly = Hourly()
        self._tasks: set[asyncio.Task[Any]] = set()  # the loop itself only has weak references

    async def take(self, claim: Claim) -> AsyncHold | None:
        """None: run without protection, as the settings say. Raises `Answered`."""
        hold = AsyncHold(self, claim, secrets.token_bytes(16))
        try:
            answer = await self.store.begin(claim.key, claim.fingerprint, token=hold.token, lease=self.settings.lease)
        except KeyStoreUnavailable as fault:
            note_outage(self.settings, fault)
            return None
        if (response := answer_to(answer)) is not None:
            raise Answered(response)
        note_takeover(answer)
        hold.beat()
        if self._hourly.is_due(time.monotonic()):
            self.spawn(self._clean)
        return hold

    def spawn(self, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def outlive(self, work: Callable[[], Coroutine[Any, Any, T]], on_cancel: Callable[[], bool]) -> T:
        """Servers cancel a request whose client went away; the work goes on unless `on_cancel` says that it may stop."""
        task = self.spawn(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if on_cancel():
                task.cancel()
            task.add_done_callback(_log_failure)  # there is nobody left to raise it to
            raise

    async def _clean(self) -> None:
        try:
            while await self.store.clean(BATCH) == BATCH:
                pass
        except KeyStoreUnavailable as fault:
            log.warning("expired idempotency keys not removed: %s", fault)


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None and not isinstance(fault, Answered):
        log.error("handler failed after its client went away", exc_info=fault)
