"""The calls of one store of keys, so many at a time that a pool of redis-py has a connection for each.

Such a pool refuses one more at once; here a call waits for its turn. The store takes half of the pool at most: a burst of copies
leaves the application that shares the client the other half. And where the application has taken all of it, a call that was
refused is made again.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hookline import clock

__all__ = ["AsyncTurns", "Turns"]

T = TypeVar("T")

MAX_CALLS = 16  # in one process, of one store; each takes a millisecond or so
_PAUSE = 0.01  # seconds after a refusal: the pool has no event for its end


class Turns:
    def __init__(self, client: Any, timeout: float) -> None:
        self._count = _share_of(client)
        self._timeout = timeout
        self._by_process: dict[int, threading.Semaphore] = {}  # what other threads hold at a fork never comes back

    def run(self, call: Callable[[], T]) -> T:
        from redis.exceptions import MaxConnectionsError

        give_up = clock.monotonic() + self._timeout
        free = self._by_process.setdefault(os.getpid(), threading.Semaphore(self._count))
        if not free.acquire(timeout=self._timeout):
            raise _too_late(self._timeout)
        try:
            while True:
                try:
                    return call()
                except MaxConnectionsError:
                    if clock.monotonic() > give_up:
                        raise
                time.sleep(_PAUSE)
        finally:
            free.release()


class AsyncTurns:
    def __init__(self, client: Any, timeout: float) -> None:
        self._timeout = timeout
        self._free = asyncio.Semaphore(_share_of(client))

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        from redis.exceptions import MaxConnectionsError

        give_up = clock.monotonic() + self._timeout
        await self._acquire()
        try:
            while True:
                try:
                    return await call()
                except MaxConnectionsError:
                    if clock.monotonic() > give_up:
                        raise
                await asyncio.sleep(_PAUSE)
        finally:
            self._free.release()

    async def _acquire(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._free.acquire()
        except TimeoutError:
            raise _too_late(self._timeout) from None


def _share_of(client: Any) -> int:
    """A cluster's client has a pool for each node, and they are not known yet."""
    room = getattr(getattr(client, "connection_pool", None), "max_connections", None)
    return max(1, min(MAX_CALLS, room // 2)) if isinstance(room, int) else MAX_CALLS


def _too_late(timeout: float) -> TimeoutError:
    return TimeoutError(f"none of the connections that it may have became free in {timeout:g} seconds")
