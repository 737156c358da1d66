"""Names to addresses, outside libcurl: its own resolver has a small pool of threads that dead names fill up for everybody.

c-ares asks over its own event thread, so a look-up that never ends costs memory and nothing else. One look-up per name is
under way at a time; everybody who wants that name waits for the same answer.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pycares
from msgspec import Struct

from hookline import clock

TTL_LEAST, MAX_TTL = 1.0, 60.0  # seconds an answer is kept, whatever the zone says
NEGATIVE_TTL = 5.0
MAX_CACHE = 10_000  # names
MAX_LOOKUPS = 1_000  # under way at once
MAX_ADDRESSES = 16  # of one name

# With one server: 1.2 s, then 2.4 s, then it is given up.
TRY_TIMEOUT, TRIES = 1.2, 2


class Answer(Struct, frozen=True):
    """What a name stands for now: addresses, or why there are none."""

    addresses: tuple[str, ...] = ()
    problem: str = ""


class Resolver:
    """Shared by every sender of a process. `on_answer` is called from c-ares' thread, or at once from the caller's."""

    def __init__(
        self,
        *,
        servers: Sequence[str] = (),
        lookups_most: int = MAX_LOOKUPS,
        now: Callable[[], float] = clock.monotonic,
    ) -> None:
        self._now = now
        self._lookups_most = lookups_most
        self._lock = threading.Lock()
        self._cache: dict[str, tuple[Answer, float]] = {}
        self._waiting: dict[str, list[Callable[[str, Answer], None]]] = {}
        self._channel = pycares.Channel(servers=list(servers) or None, timeout=TRY_TIMEOUT, tries=TRIES)

    @property
    def lookups(self) -> int:
        """How many are under way."""
        return len(self._waiting)

    def cached(self, name: str) -> Answer | None:
        kept = self._cache.get(name)
        if kept is None or kept[1] <= self._now():
            return None
        return kept[0]

    def look_up(self, name: str, on_answer: Callable[[str, Answer], None]) -> None:
        """Tell `on_answer` what `name` stands for: now, when it is known, or later."""
        with self._lock:
            answer = self.cached(name)
            if answer is None:
                waiting = self._waiting.get(name)
                if waiting is not None:
                    waiting.append(on_answer)
                    return
                if len(self._waiting) >= self._lookups_most:
                    answer = Answer(problem="too many look-ups are under way")
                else:
                    self._waiting[name] = [on_answer]
        if answer is not None:
            on_answer(name, answer)
        else:
            self._ask(name)

    def close(self) -> None:
        """Look-ups under way end with a problem; their `on_answer` is still called."""
        self._channel.close()

    def _ask(self, name: str) -> None:
        # Outside the lock: an answer from the hosts file comes back inside this very call.
        try:
            self._channel.getaddrinfo(
                name, None, type=socket.SOCK_STREAM, callback=lambda found, error: self._heard(name, found, error)
            )
        except Exception as error:  # a name that c-ares will not take, or a closed channel
            self._settle(name, Answer(problem=f"cannot be looked up ({type(error).__name__})"), NEGATIVE_TTL)

    def _heard(self, name: str, found: Any, error: int | None) -> None:
        if error is not None:
            self._settle(name, Answer(problem=_why(error)), NEGATIVE_TTL)
            return
        addresses = tuple(dict.fromkeys(_text(node.addr[0]) for node in found.nodes))[:MAX_ADDRESSES]
        if not addresses:
            self._settle(name, Answer(problem="the name has no address"), NEGATIVE_TTL)
            return
        ttl = min(node.ttl for node in found.nodes)
        self._settle(name, Answer(addresses=addresses), min(max(float(ttl), TTL_LEAST), MAX_TTL))

    def _settle(self, name: str, answer: Answer, ttl: float) -> None:
        with self._lock:
            self._cache.pop(name, None)  # so that the newest is last, and the oldest is dropped first
            self._cache[name] = (answer, self._now() + ttl)
            while len(self._cache) > MAX_CACHE:
                del self._cache[next(iter(self._cache))]
            waiting = self._waiting.pop(name, [])
        for on_answer in waiting:
            with contextlib.suppress(Exception):  # one waiter's fault is not the others'
                on_answer(name, answer)


def _text(text: str | bytes) -> str:
    return text.decode("ascii") if isinstance(text, bytes) else text


def _why(error: int) -> str:
    if error == pycares.errno.ARES_ETIMEOUT:
        return "no name server answered in time"
    if error == pycares.errno.ARES_ENOTFOUND:
        return "the name does not exist"
    if error == pycares.errno.ARES_ENODATA:
        return "the name has no address"
    if error in (pycares.errno.ARES_ECANCELLED, pycares.errno.ARES_EDESTRUCTION):
        return "the look-up was cancelled"
    return f"the look-up failed: {_text(pycares.errno.strerror(error))}"
