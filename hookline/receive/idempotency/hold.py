"""Idempotency keys that are held while a handler runs: the shared steps, a holder for threads, and one for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from hookline.errors import InvalidInput
from hookline.outbox.coroutines import run_sync, settled
from hookline.receive.idempotency import problems
from hookline.receive.idempotency.core import Claim, answer_to
from hookline.receive.idempotency.keys import AsyncKeyStore, Fresh, KeyStore, KeyStoreUnavailable, StoredResponse
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.recording import Recording
from hookline.receive.idempotency.settings import IdempotencySettings

T = TypeVar("T")

RENEW = 1 / 3  # fraction of a lease after which it is renewed
RETRY = 1 / 12  # fraction of a lease after which a failed renewal is retried
_CLEAN_BATCH = 1000  # keys that one clean-up statement deletes
_CLEAN_EVERY = 3600.0  # seconds between two clean-ups of expired keys
_IDLE = 30.0  # seconds without held keys after which the thread of `Holder` ends
_KEEP_TRYING = 600.0  # seconds for which a failed save of a response is retried

log = logging.getLogger("hookline.receive")


class Hold:
    """A key that this process holds. `settle` or `release` ends the hold.

    If the hold is dropped without either, the key becomes free when its lease ends. The methods are coroutines for
    every store. With a synchronous store they never wait, so `run_sync` can run them.
    """

    def __init__(self, holder: BaseHolder, claim: Claim) -> None:
        self._holder = holder
        self._store: Any = holder.store
        self._settings = holder.settings
        self._token = secrets.token_bytes(16)
        self.claim = claim
        self.is_over = False
        self.unsaved: StoredResponse | None = None  # the response that the store could not save yet
        self._give_up_at = 0.0

    async def begin(self) -> Any:
        claim, lease = self.claim, self._settings.lease
        return await settled(self._store.begin(claim.key, claim.fingerprint, token=self._token, lease=lease))

    async def settle(self, recording: Recording) -> None:
        """Save the recorded response. If there is no response to save (`Recording.result` is None), free the key.

        Only the first call has an effect.
        """
        response = recording.result()
        if response is None:
            await self.release()
        elif self._end():
            await self._save_or_retry(response)

    async def release(self) -> None:
        if not self._end():
            return
        try:
            await settled(self._store.release(self.claim.key, self._token))
        except KeyStoreUnavailable as fault:
            log.warning("idempotency key not released, it becomes free when its lease ends: %s", fault)

    async def renew(self) -> bool | None:
        """Renew the lease. Return False if there is nothing left to renew, and None if the store was not available."""
        try:
            renewed = await settled(self._store.renew(self.claim.key, self._token, self._settings.lease))
            held = renewed or await self._begin_again()
        except KeyStoreUnavailable as fault:
            log.warning("lease of an idempotency key not renewed: %s", fault)
            return None
        if not held and not self.is_over:
            log.error("lease of an idempotency key lost while its handler runs: a copy may run it at the same time")
        return held

    async def work(self) -> bool | None:
        """Renew the lease, or try again to save the response.

        Return False if there is nothing left to do, and None if the store was not available.
        """
        try:
            if self.unsaved is None:
                return await self.renew()
            is_saved = await self._save(self.unsaved) is None
            return False if is_saved or time.monotonic() > self._give_up_at else None
        except Exception:
            log.exception("lease of an idempotency key not renewed, or its response not saved")
            return None

    def _end(self) -> bool:
        """End the hold. Return True only the first time."""
        if self.is_over:
            return False
        self.is_over = True
        self._holder.stop_renewing(self)
        return True

    async def _save_or_retry(self, response: StoredResponse) -> None:
        """Save the response, now or later. The handler has run, so the client gets the response in both cases."""
        if await self._save(response) is None:
            return
        if (fault := await self._save(response)) is not None:  # the second try uses another connection
            log.error("response not saved, a copy may run the handler again: %s", fault)
            self.unsaved, self._give_up_at = response, time.monotonic() + _KEEP_TRYING
            self._holder.work_later(self)

    async def _save(self, response: StoredResponse) -> KeyStoreUnavailable | None:
        """Save the response. Return the error if the store was not available, so that the caller can try again."""
        try:
            if not (await self._finish(response) or (await self._is_begun() and await self._finish(response))):
                log.error("response not saved: the lease of its idempotency key was lost")
        except KeyStoreUnavailable as fault:
            return fault
        return None

    async def _begin_again(self) -> bool:
        """Take the key again if the store forgot it (evicted, or restarted without its log) and nobody else has it."""
        is_begun = not self.is_over and await self._is_begun()
        if is_begun and self.is_over:  # the hold ended during `_is_begun`, which took the key again: release it
            await settled(self._store.release(self.claim.key, self._token))
            return False
        return is_begun

    async def _is_begun(self) -> bool:
        return isinstance(await self.begin(), Fresh)

    async def _finish(self, response: StoredResponse) -> bool:
        saved: bool = await settled(self._store.finish(self.claim.key, self._token, response, self._settings.ttl))
        return saved


class BaseHolder(ABC):
    """Takes keys for one middleware, and renews their leases."""

    is_async = False

    def __init__(self, store: KeyStore | AsyncKeyStore, settings: IdempotencySettings) -> None:
        _check_store(store, is_async=self.is_async)
        self.store = store
        self.settings = settings
        self._clean_at: float | None = None  # when the next clean-up is due; None: at the first request

    @abstractmethod
    def work_later(self, hold: Hold) -> None:
        """Schedule `hold.work`: the renewal of its lease, or the next try to save its response."""

    @abstractmethod
    def stop_renewing(self, hold: Hold) -> None: ...

    @abstractmethod
    def _clean_in_background(self) -> None: ...

    async def take(self, claim: Claim) -> Hold | None:
        """Acquire the key. Raise `Answered` if the handler must not run.

        Return None if the store is unavailable and the settings let the handler run anyway. Then nothing prevents a
        second run for another copy of the request.
        """
        hold = Hold(self, claim)
        try:
            answer = await hold.begin()
        except KeyStoreUnavailable as fault:
            log.error("store of idempotency keys unavailable: %s", fault)
            if self.settings.when_unavailable == "refuse":
                raise Answered(problems.STORE_UNAVAILABLE) from fault
            return None
        if (response := answer_to(answer)) is not None:
            raise Answered(response)
        if isinstance(answer, Fresh) and answer.run > 1:
            log.warning("handler runs again (run %d): the run before did not finish", answer.run)
        self.work_later(hold)
        now = time.monotonic()
        if self._clean_at is None or now >= self._clean_at:
            self._clean_at = now + _CLEAN_EVERY
            self._clean_in_background()
        return hold

    async def _clean(self) -> None:
        try:
            while await settled(self.store.clean(_CLEAN_BATCH)) == _CLEAN_BATCH:
                pass
        except KeyStoreUnavailable as fault:
            log.warning("expired idempotency keys not deleted: %s", fault)


def _check_store(store: Any, *, is_async: bool) -> None:
    begin = getattr(store, "begin", None)
    if begin is None:
        raise InvalidInput("the store has no `begin`: give one of hookline.receive.stores")
    if inspect.iscoroutinefunction(begin) != is_async:
        needed, given = ("an async", "is not") if is_async else ("a", "is async")
        raise InvalidInput(
            f"this middleware needs {needed} store of keys, and {type(store).__name__} {given}: "
            "use the class with Async in its name for async stores, and the one without it for the others"
        )


# ── the holder for threads ────────────────────────────────────────────────────────────────────────────────────────


class Holder(BaseHolder):
    """Takes keys of a synchronous store.

    A thread renews leases, and saves responses that could not be saved at once. It ends when it is idle.
    """

    def __init__(self, store: KeyStore, settings: IdempotencySettings) -> None:
        super().__init__(store, settings)
        self._renew_after = settings.lease * RENEW
        self._retry_after = settings.lease * RETRY
        self._lock = threading.Lock()
        self._due: WeakKeyDictionary[Hold, float] = WeakKeyDictionary()  # weak, so that dropped holds are not renewed
        self._unsaved: set[Hold] = set()  # holds whose response is not saved yet; this set keeps them alive
        self._busy_at = 0.0
        self._thread: threading.Thread | None = None

    def work_later(self, hold: Hold) -> None:
        now = time.monotonic()
        with self._lock:
            if hold.unsaved is not None:
                self._unsaved.add(hold)
            self._due[hold] = now + (self._renew_after if hold.unsaved is None else self._retry_after)
            self._busy_at = now
            if self._thread is None or not self._thread.is_alive():  # a forked child does not have the thread
                self._thread = threading.Thread(target=self._run, name="hookline-heartbeat", daemon=True)
                self._thread.start()

    def stop_renewing(self, hold: Hold) -> None:
        with self._lock:
            self._due.pop(hold, None)

    def _clean_in_background(self) -> None:
        threading.Thread(target=lambda: run_sync(self._clean()), name="hookline-clean", daemon=True).start()

    def _run(self) -> None:
        """Twice per renewal interval, renew the leases that are due, and try again to save unsaved responses.

        Requests do not wake the thread. That would cost more, and most requests end before their first renewal.
        """
        pause = self._renew_after / 2
        while self._is_needed():
            time.sleep(pause)
            pause = self._renew_after / 2 if self._work_on_due() else self._retry_after

    def _is_needed(self) -> bool:
        now = time.monotonic()
        with self._lock:
            if self._due:
                self._busy_at = now
            elif now - self._busy_at > _IDLE:
                self._thread = None
                return False
            return True

    def _work_on_due(self) -> bool:
        """Call `_work_on` for each hold that is due. Stop and return False when the store is not available.

        While the store is down, each call may take its whole timeout, so the remaining holds wait for the next run.
        This code is not in `_run`: a local variable there would keep a hold in memory while the thread sleeps, even
        if its request has dropped it.
        """
        now = time.monotonic()
        with self._lock:
            due = sorted((hold for hold, at in self._due.items() if at <= now), key=self._due.__getitem__)
        return all(self._work_on(hold) for hold in due)

    def _work_on(self, hold: Hold) -> bool:
        """Renew the lease, or save the response.

        Return False if the store was not available: the hold is then due again later.
        """
        was_unsaved = hold.unsaved is not None
        outcome = run_sync(hold.work())
        with self._lock:
            # True if the handler ended during the renewal and its response could not be saved. The response must
            # still be saved then.
            has_changed = was_unsaved != (hold.unsaved is not None)
            if outcome is False and not has_changed:
                self._due.pop(hold, None)
                self._unsaved.discard(hold)
            elif hold in self._due:  # a hold that ended during `work` is no longer in `_due`
                self._due[hold] = time.monotonic() + (self._renew_after if outcome else self._retry_after)
        return outcome is not None


# ── the holder for asyncio ────────────────────────────────────────────────────────────────────────────────────────


class AsyncHolder(BaseHolder):
    """Takes keys of an async store, and runs tasks that must not be cancelled together with a request."""

    is_async = True

    def __init__(self, store: AsyncKeyStore, settings: IdempotencySettings) -> None:
        super().__init__(store, settings)
        self._timers: dict[Hold, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[Any]] = set()  # the event loop keeps only weak references to tasks

    def work_later(self, hold: Hold) -> None:
        """Schedule `hold.work`.

        A retry to save a response does not run at once. The handler may hold the connection that the store needs, and
        return it only after the response was sent.
        """
        self._schedule(hold, RENEW if hold.unsaved is None else RETRY)

    def stop_renewing(self, hold: Hold) -> None:
        """Cancel the timer of the hold's next renewal. A renewal that has started goes on, because the store would
        lose a connection if its call were cancelled."""
        if (timer := self._timers.pop(hold, None)) is not None:
            timer.cancel()

    def _schedule(self, hold: Hold, part: float) -> None:
        """Call `work_on` for the hold after this part of the lease time.

        This sets a timer and creates a task only when the timer fires. A timer costs less than a task, and most
        handlers end before it fires.
        """
        pause, work = self.settings.lease * part, partial(self.work_on, hold)
        self._timers[hold] = asyncio.get_running_loop().call_later(pause, self.spawn, work)

    async def work_on(self, hold: Hold) -> None:
        """Renew the lease, or save the response. Schedule the next call if the handler still runs or the response is
        still not saved."""
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
