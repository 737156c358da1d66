"""A database that goes away: wait longer after each failure, with jitter, and never give up."""

from __future__ import annotations

import asyncio
import random

import structlog

from hookline.clock import monotonic

log = structlog.get_logger()

_FIRST, _LONGEST = 0.1, 5.0


class Outage:
    """What the loops of one process know about the database. `healthy_for` counts from the end of the last outage."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._failures = 0
        self._healthy_since: float | None = None  # never yet away

    @property
    def away(self) -> bool:
        return self._failures > 0

    def healthy_for(self, seconds: float) -> bool:
        """True if the database was never away, or is back for that long."""
        if self.away:
            return False
        return self._healthy_since is None or monotonic() - self._healthy_since >= seconds

    async def failed(self, what: str, error: Exception, stop: asyncio.Event) -> None:
        """Say so once per outage, and wait; a stop ends the wait."""
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


async def pause(seconds: float, stop: asyncio.Event) -> None:
    """Wait, unless the stop comes first."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
