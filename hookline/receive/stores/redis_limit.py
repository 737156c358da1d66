"""A limit for the calls of one store that run at once, so that the pool of redis-py has a connection for each.

Without it, the pool would refuse a call at once if all its connections are in use. Here a call waits. A store takes at most
half of the pool, so that many requests at once leave connections for the application. If the application itself uses all
connections, a refused call is retried.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from hookline import clock
from hookline.outbox.coroutines import settled

MAX_CALLS = 16  # per process and store; each takes about a millisecond
_PAUSE = 0.01  # seconds before a refused call is retried; the pool has no event for a free connection


class BaseCallLimit(ABC):
    """The shared part. With a synchronous client, `run` never waits for an event loop."""

    def __init__(self, client: Any, timeout: float) -> None:
        pool_size = getattr(getattr(client, "connection_pool", None), "max_connections", None)
        # The client of a cluster has one pool per node, and does not know the nodes yet.
        self._count = max(1, min(MAX_CALLS, pool_size // 2)) if isinstance(pool_size, int) else MAX_CALLS
        self._timeout = timeout

    @abstractmethod
    async def _acquire(self) -> Any:
        """Wait for a free place. Return its semaphore, or None after the timeout."""

    @abstractmethod
    async def _pause(self) -> None: ...

    async def run(self, call: Callable[[], Any]) -> Any:
        from redis.exceptions import MaxConnectionsError

        give_up = clock.monotonic() + self._timeout
        semaphore = await self._acquire()
        if semaphore is None:
            raise TimeoutError(f"no connection became free for this store in {self._timeout:g} seconds")
        try:
            while True:
                try:
                    return await settled(call())
                except MaxConnectionsError:
                    if clock.monotonic() > give_up:
                        raise
                await self._pause()
        finally:
            semaphore.release()


class CallLimit(BaseCallLimit):
    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout)
        # A semaphore per process: a child would wait forever for places that threads of its parent held at the fork.
        self._by_process: dict[int, threading.Semaphore] = {}

    async def _acquire(self) -> threading.Semaphore | None:
        semaphore = self._by_process.setdefault(os.getpid(), threading.Semaphore(self._count))
        return semaphore if semaphore.acquire(timeout=self._timeout) else None

    async def _pause(self) -> None:
        time.sleep(_PAUSE)  # noqa: ASYNC251  there is no event loop


class AsyncCallLimit(BaseCallLimit):
    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout)
        self._semaphore = asyncio.Semaphore(self._count)

    async def _acquire(self) -> asyncio.Semaphore | None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._semaphore.acquire()
        except TimeoutError:
            return None
        return self._semaphore

    async def _pause(self) -> None:
        await asyncio.sleep(_PAUSE)
