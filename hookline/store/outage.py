"""How a loop waits while the database is unavailable: longer after each failure, with jitter, without ever giving
up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine

import structlog

from hookline.clock import monotonic

log = structlog.get_logger()

_FIRST, _LONGEST = 0.1, 5.0


class Outage:
    """The state of the database as the loops of one process see it. An outage begins with a failed call and ends with
    the next successful one."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._failures = 0
        self._healthy_since: float | None = None  # None: the database was never unavailable

    @property
    def away(self) -> bool:
        return self._failures > 0

    def healthy_for(self, seconds: float) -> bool:
        """Return True if the database was never unavailable, or has been available again for `seconds` seconds."""
        if self.away:
            return False
        return self._healthy_since is None or monotonic() - self._healthy_since >= seconds

    async def failed(self, what: str, error: Exception, stop: asyncio.Event) -> None:
        """Log the first failure of an outage, then wait. `stop` ends the wait."""
        self._failures += 1
        if self._failures == 1:
            log.error("database_away", while_doing=what, error=str(error))
        longest = min(_LONGEST, _FIRST * 2.0 ** min(self._failures, 16))
        await pause(self._chance.uniform(longest / 2, longest), stop)

    def passed(self) -> None:
        if self._failures:
            log.info("database_back", failed_calls=self._failures)
            self._failures = 0
            self._healthy_since = monotonic()


async def first_of(*waits: Coroutine[None, None, object], timeout: float | None = None) -> None:
    """Wait until one of `waits` ends or the timeout is over, then cancel the others. If one failed, raise its
    error."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        ended, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def pause(seconds: float, stop: asyncio.Event) -> None:
    """Wait for `seconds` seconds, or until `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
