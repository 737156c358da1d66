"""Resolves host names with c-ares. libcurl's own resolver has few threads, and names whose servers never answer would
block them all.

c-ares has its own event thread, so a look-up that never ends costs only memory. There is one look-up per name at a
time, and all requests to that name wait for the same answer.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pycares
from msgspec import Struct

from hookline import clock

MIN_TTL, MAX_TTL = 1.0, 60.0  # bounds in seconds for the time that an answer is cached
NEGATIVE_TTL = 5.0  # seconds that a failed look-up is cached
MAX_CACHE = 10_000  # maximum host names in the cache
MAX_LOOKUPS = 1_000  # maximum look-ups at the same time
MAX_ADDRESSES = 16  # maximum addresses that are kept for one name

# With one server, c-ares waits 1.2 s, then 2.4 s, and then gives up.
TRY_TIMEOUT, TRIES = 1.2, 2


class Answer(Struct, frozen=True):
    """The addresses of a name, or the reason why there are none."""

    addresses: tuple[str, ...] = ()
    problem: str = ""


class Resolver:
    """Resolves and caches names. If an answer needs a query, `on_answer` is called in the thread of c-ares. Otherwise
    it is called at once, in the thread of the caller."""

    def __init__(self, *, servers: Sequence[str] = (), now: Callable[[], float] = clock.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._cache: dict[str, tuple[Answer, float]] = {}
        self._waiting: dict[str, list[Callable[[str, Answer], None]]] = {}
        self._channel = pycares.Channel(servers=list(servers) or None, timeout=TRY_TIMEOUT, tries=TRIES)

    @property
    def lookups(self) -> int:
        """Number of look-ups that have no answer yet."""
        return len(self._waiting)

    def cached(self, name: str) -> Answer | None:
        kept = self._cache.get(name)
        if kept is None or kept[1] <= self._now():
            return None
        return kept[0]

    def look_up(self, name: str, on_answer: Callable[[str, Answer], None]) -> None:
        """Call `on_answer` with the addresses of `name`, or with the reason why there are none. The call happens at
        once if the answer needs no query to a name server, and later otherwise."""
        with self._lock:
            answer = self.cached(name)
            if answer is None:
                waiting = self._waiting.get(name)
                if waiting is not None:
                    waiting.append(on_answer)
                    return
                if len(self._waiting) >= MAX_LOOKUPS:
                    answer = Answer(problem="too many look-ups are under way")
                else:
                    self._waiting[name] = [on_answer]
        if answer is not None:
            on_answer(name, answer)
        else:
            self._ask(name)

    def close(self) -> None:
        """Cancel all look-ups. Their `on_answer` is still called, with an `Answer` that has a `problem`."""
        self._channel.close()

    def _ask(self, name: str) -> None:
        # Call c-ares without holding the lock. If the answer is in the hosts file, c-ares calls `_receive` during this
        # call, and `_finish` takes the lock.
        try:
            self._channel.getaddrinfo(name, None, type=socket.SOCK_STREAM, callback=partial(self._receive, name))
        except Exception as error:  # c-ares refuses the name, or the channel is closed
            self._finish(name, Answer(problem=f"cannot be looked up ({type(error).__name__})"), NEGATIVE_TTL)

    def _receive(self, name: str, found: Any, error: int | None) -> None:
        if error is not None:
            self._finish(name, Answer(problem=_describe(error)), NEGATIVE_TTL)
            return
        addresses = tuple(dict.fromkeys(_text(node.addr[0]) for node in found.nodes))[:MAX_ADDRESSES]
        if not addresses:
            self._finish(name, Answer(problem="the name has no address"), NEGATIVE_TTL)
            return
        ttl = min(node.ttl for node in found.nodes)
        self._finish(name, Answer(addresses=addresses), min(max(float(ttl), MIN_TTL), MAX_TTL))

    def _finish(self, name: str, answer: Answer, ttl: float) -> None:
        with self._lock:
            self._cache.pop(name, None)  # the newest answer goes to the end, because the cache drops from the start
            self._cache[name] = (answer, self._now() + ttl)
            while len(self._cache) > MAX_CACHE:
                del self._cache[next(iter(self._cache))]
            waiting = self._waiting.pop(name, [])
        for on_answer in waiting:
            with contextlib.suppress(Exception):  # an error in one callback must not stop the others
                on_answer(name, answer)


def _text(text: str | bytes) -> str:
    return text.decode("ascii") if isinstance(text, bytes) else text


_PROBLEMS = {
    pycares.errno.ARES_ETIMEOUT: "no name server answered in time",
    pycares.errno.ARES_ENOTFOUND: "the name does not exist",
    pycares.errno.ARES_ENODATA: "the name has no address",
    pycares.errno.ARES_ECANCELLED: "the look-up was cancelled",
    pycares.errno.ARES_EDESTRUCTION: "the look-up was cancelled",
}


def _describe(error: int) -> str:
    return _PROBLEMS.get(error) or f"the look-up failed: {_text(pycares.errno.strerror(error))}"
