"""How a loop waits while the database is unavailable: longer after each failure, with jitter, without ever giving
up."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine

import structlog

from hookline.clock import monotonic
from hookline.errors import StoreUnavailable
from hookline.rules.lost_leases import Period, overdue
from hookline.store.bounds import FAR_LEASE

log = structlog.get_logger()

_FIRST, _LONGEST = 0.1, 5.0
_SHORTEST = 1.0  # seconds; a shorter period in which the database was available is joined with the next one


class Outage:
    """The state of the database as the loops of one process see it. An outage begins with a failed call and ends with
    the next successful one."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._failures = 0
        self._since = monotonic()  # when the database became available
        # Past periods in which the database was available. A full list has at least the seconds of the longest lease.
        self._periods: deque[Period] = deque(maxlen=round(FAR_LEASE / _SHORTEST))

    @property
    def away(self) -> bool:
        return self._failures > 0

    def lease_overdue(self, lease: float) -> float | None:
        """Return how many seconds ago a lease must have ended to count as lost. None: no lease counts as lost yet."""
        if self.away:
            return None
        now = monotonic()
        return overdue([*self._periods, Period(self._since, now - self._since)], now=now, grace=lease)

    async def failed(self, what: str, error: Exception, stop: asyncio.Event) -> None:
        """Log the first failure of an outage, then wait. `stop` ends the wait."""
        self._failures += 1
        if self._failures == 1:
            self._end_period()
            log.error("database_away", while_doing=what, error=str(error))
        longest = min(_LONGEST, _FIRST * 2.0 ** min(self._failures, 16))
        await pause(self._chance.uniform(longest / 2, longest), stop)

    async def wait_out(self, what: str, call: Callable[[], Awaitable[object]], stop: asyncio.Event) -> None:
        """Repeat a call while it raises `StoreUnavailable` and `stop` is not set. Other errors are raised."""
        while not stop.is_set():
            try:
                await call()
            except StoreUnavailable as error:
                await self.failed(what, error, stop)
            else:
                self.passed()
                return

    def passed(self) -> None:
        if self._failures:
            log.info("database_back", failed_calls=self._failures)
            self._failures = 0
            self._since = monotonic()

    def _end_period(self) -> None:
        """Store the period that has just ended, in which the database was available. If the previous period was short,
        join the two, so that a database that fails many times a second does not fill the list with short periods."""
        period = Period(self._since, monotonic() - self._since)
        if self._periods and self._periods[-1].seconds < _SHORTEST:
            before = self._periods.pop()
            period = Period(before.began, before.seconds + period.seconds)
        self._periods.append(period)


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
