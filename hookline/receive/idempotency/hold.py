"""A key that is held while the handler runs, for threads. One daemon thread renews the leases of all of them."""

from __future__ import annotations

import inspect
import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from hookline.errors import InvalidInput
from hookline.receive.idempotency import problems
from hookline.receive.idempotency.core import Claim, answer_to
from hookline.receive.idempotency.keys import Fresh, KeyStore, KeyStoreUnavailable, StoredResponse
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.recording import Recording
from hookline.receive.idempotency.settings import IdempotencySettings

__all__ = ["AGAIN", "BATCH", "BEAT", "Hold", "Holder", "Hourly", "check_store"]

BEAT = 1 / 3  # of a lease: when it is renewed ...
AGAIN = 1 / 12  # ... and how long after a try that failed the next one is made
BATCH = 1000  # keys per clean-up statement
IDLE = 30.0  # seconds after which the heart stops, with nothing to beat for
OWED = 600.0  # seconds for which the store is asked again to keep an answer

log = logging.getLogger("hookline.receive")


def check_store(store: Any, *, is_async: bool) -> None:
    begin = getattr(store, "begin", None)
    if begin is None:
        raise InvalidInput("the store has no `begin`: give one of hookline.receive.stores")
    if inspect.iscoroutinefunction(begin) != is_async:
        needed, given = ("an async", "is not") if is_async else ("a", "is async")
        raise InvalidInput(
            f"this middleware needs {needed} store of keys, and {type(store).__name__} {given}: "
            "take its twin, the name with or without Async"
        )


class Hourly:
    """Whose turn it is to clean up: the first request's, and then one an hour."""

    def __init__(self, every: float = 3600.0) -> None:
        self._every = every
        self._next: float | None = None

    def is_due(self, now: float) -> bool:
        if self._next is not None and now < self._next:
            return False
        self._next = now + self._every
        return True


class Hold:
    """Ours, until it is ended. Whoever drops it without ending it leaves the key to its lease."""

    def __init__(self, holder: Holder, claim: Claim, token: bytes) -> None:
        self._holder = holder
        self.claim = claim
        self.token = token
        self.is_over = False

    def settle(self, recording: Recording) -> None:
        """Keep what was recorded, or free the key if it is not to be kept. Only the first end counts."""
        kept = recording.result()
        if kept is None:
            self.release()
        elif self._end():
            self._keep(kept)

    def release(self) -> None:
        if not self._end():
            return
        try:
            self._holder.store.release(self.claim.key, self.token)
        except KeyStoreUnavailable as fault:
            log.warning("idempotency key not released, its lease has to run out: %s", fault)

    def renew(self) -> bool | None:
        """False: there is nothing left to renew. None: the store could not be asked, and the lease may outlive that."""
        try:
            held = self._holder.store.renew(self.claim.key, self.token, self._holder.settings.lease) or self._retake()
        except KeyStoreUnavailable as fault:
            log.warning("lease of an idempotency key not renewed: %s", fault)
            return None
        if not held and not self.is_over:
            log.error("lease of an idempotency key lost while its handler runs: a copy may run it at the same time")
        return held

    def offer(self, kept: StoredResponse) -> KeyStoreUnavailable | None:
        """Have the answer kept; or what is in the way, and it may be offered again."""
        try:
            if not (self._finish(kept) or (self._begin() and self._finish(kept))):
                log.error("answer not kept: the lease of its idempotency key was lost")
        except KeyStoreUnavailable as fault:
            return fault
        return None

    def _end(self) -> bool:
        if self.is_over:
            return False
        self.is_over = True
        self._holder.heart.forget(self)
        return True

    def _keep(self, kept: StoredResponse) -> None:
        """The work is done and its caller hears of it, even where the next one cannot yet."""
        if self.offer(kept) is None:
            return
        if (fault := self.offer(kept)) is not None:  # a connection that broke is another one the second time
            log.error("answer not kept, a copy may run the handler again: %s", fault)
            self._holder.heart.owe(self, kept)

    def _retake(self) -> bool:
        """A store that forgot the key (evicted, restarted without its log) gives it again, unless somebody else has it now."""
        return not self.is_over and self._begin() and not self._is_left()

    def _is_left(self) -> bool:
        """It ended meanwhile: what was just taken must not stay behind."""
        if self.is_over:
            self._holder.store.release(self.claim.key, self.token)
        return self.is_over

    def _begin(self) -> bool:
        claim, lease = self.claim, self._holder.settings.lease
        return isinstance(self._holder.store.begin(claim.key, claim.fingerprint, token=self.token, lease=lease), Fresh)

    def _finish(self, kept: StoredResponse) -> bool:
        return self._holder.store.finish(self.claim.key, self.token, kept, self._holder.settings.ttl)


class LeaseRenewer:
    """Renews what is held for longer than a third of its lease, and offers the store again what it could not keep. The thread
    starts with the first and stops when idle."""

    def __init__(self, lease: float) -> None:
        self._every = lease * BEAT
        self._again = lease * AGAIN
        self._lock = threading.Lock()
        self._due: WeakKeyDictionary[Hold, float] = WeakKeyDictionary()  # one that is dropped is not renewed for ever
        self._owed: dict[Hold, tuple[StoredResponse, float]] = {}  # until when
        self._busy_at = 0.0
        self._thread: threading.Thread | None = None

    def beat_for(self, hold: Hold) -> None:
        now = time.monotonic()
        with self._lock:
            self._due[hold] = now + self._every
            self._start(now)

    def owe(self, hold: Hold, kept: StoredResponse) -> None:
        now = time.monotonic()
        with self._lock:
            self._owed[hold] = kept, now + OWED
            self._start(now)

    def _start(self, now: float) -> None:
        self._busy_at = now
        if self._thread is None or not self._thread.is_alive():  # not alive: this process was forked
            self._thread = threading.Thread(target=self._run, name="hookline-heartbeat", daemon=True)
            self._thread.start()

    def forget(self, hold: Hold) -> None:
        with self._lock:
            self._due.pop(hold, None)

    def _run(self) -> None:
        """It looks twice per third of a lease instead of being woken for each request, of which most are over by then."""
        pause = self._every / 2
        while self._is_needed():
            time.sleep(pause)
            # With names of its own: asleep, the thread must not hold on to what all others have dropped.
            pause = self._every / 2 if self._renew_late() else self._again
            self._offer_owed()

    def _is_needed(self) -> bool:
        now = time.monotonic()
        with self._lock:
            if self._due or self._owed:
                self._busy_at = now
            elif now - self._busy_at > IDLE:
                self._thread = None
                return False
            return True

    def _renew_late(self) -> bool:
        """Until one fails, which goes to the back: the store may be away, and each would cost its timeout. True: all of them."""
        now = time.monotonic()
        with self._lock:
            late = sorted((hold for hold, due in self._due.items() if due <= now), key=self._due.__getitem__)
        return all(self._renew(hold) for hold in late)

    def _renew(self, hold: Hold) -> bool:
        """False: the store could not be asked."""
        try:
            held = hold.renew()
        except Exception:
            log.exception("lease of an idempotency key not renewed")
            held = None
        with self._lock:
            if hold not in self._due:
                pass  # it ended meanwhile
            elif held is False:
                del self._due[hold]
            else:
                self._due[hold] = time.monotonic() + (self._every if held else self._again)
        return held is not None

    def _offer_owed(self) -> None:
        """Until one fails, which goes to the back: while the store is away, each costs its timeout, and leases are due too."""
        with self._lock:
            owed = list(self._owed.items())
        for hold, (kept, until) in owed:
            is_kept = self._is_kept(hold, kept)
            with self._lock:
                del self._owed[hold]
                if not is_kept and time.monotonic() < until:
                    self._owed[hold] = kept, until
                    return

    def _is_kept(self, hold: Hold, kept: StoredResponse) -> bool:
        try:
            return hold.offer(kept) is None
        except Exception:
            log.exception("answer not kept")
            return False


class Holder:
    """One per middleware: takes keys."""

    def __init__(self, store: KeyStore, settings: IdempotencySettings) -> None:
        check_store(store, is_async=False)
        self.store = store
        self.settings = settings
        self.heart = LeaseRenewer(settings.lease)
        self._hourly = Hourly()

    def take(self, claim: Claim) -> Hold | None:
        """None: run without protection, as the settings say. Raises `Answered`."""
        hold = Hold(self, claim, secrets.token_bytes(16))
        try:
            answer = self.store.begin(claim.key, claim.fingerprint, token=hold.token, lease=self.settings.lease)
        except KeyStoreUnavailable as fault:
            note_outage(self.settings, fault)
            return None
        if (response := answer_to(answer)) is not None:
            raise Answered(response)
        note_takeover(answer)
        self.heart.beat_for(hold)
        if self._hourly.is_due(time.monotonic()):
            threading.Thread(target=_clean, args=(self.store.clean,), name="hookline-clean", daemon=True).start()
        return hold


def note_outage(settings: IdempotencySettings, fault: KeyStoreUnavailable) -> None:
    log.error("store of idempotency keys unavailable: %s", fault)
    if settings.when_unavailable == "refuse":
        raise Answered(problems.store_unavailable()) from fault


def note_takeover(answer: object) -> None:
    if isinstance(answer, Fresh) and answer.run > 1:
        log.warning("handler runs again (%d): the one before did not come to its end", answer.run)


def _clean(clean: Callable[[int], int]) -> None:
    try:
        while clean(BATCH) == BATCH:
            pass
    except KeyStoreUnavailable as fault:
        log.warning("expired idempotency keys not removed: %s", fault)
