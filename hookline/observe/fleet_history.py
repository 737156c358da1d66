"""The history of the whole fleet in equal time intervals, computed from pulses. The dashboard's charts show it.

A week has ten thousand minutes, too many to read for every page view. So finished quarters of an hour are computed
once and cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Protocol

from hookline.clock import EPOCH
from hookline.model.pulses import Pulse, together

MINUTE, QUARTER = timedelta(minutes=1), timedelta(minutes=15)
AT_ONCE = 24  # quarters of an hour per database read; other tasks can run between two reads
REMEMBERED = timedelta(days=7, hours=1)  # older quarters of an hour are removed from the cache
CHARTED = ("accepted", "attempts", "latency", "first_latency", "lag", "used")  # the fields of a pulse that charts show
_LATELY = timedelta(hours=1)  # how far back `History.quarters` looks for the newest stored sum of a minute


class Read(Protocol):
    """The type of `store.monitoring.pulses`."""

    def __call__(
        self, since: datetime, until: datetime | None = None, *, minutes: bool = False
    ) -> Coroutine[Any, Any, list[Pulse]]: ...


def charted(pulses: Iterable[Pulse], at: datetime) -> Pulse:
    """Return the sum of the pulses, with the time `at`, for the fields that charts show."""
    return together(pulses, at, CHARTED)


def stretches(pulses: Iterable[Pulse], length: timedelta) -> dict[datetime, Pulse]:
    """Sum pulses per interval, by the interval's start. A pulse belongs to the interval in which it ended.

    A pulse that ended exactly at a boundary belongs to the earlier interval.
    """
    groups: dict[datetime, list[Pulse]] = {}
    for pulse in pulses:
        groups.setdefault(begin(pulse.at - timedelta(microseconds=1), length), []).append(pulse)
    return {start: charted(group, start) for start, group in groups.items()}


def begin(at: datetime, length: timedelta) -> datetime:
    """Return the start of the interval that contains this time."""
    return at - (at - EPOCH) % length


class History:
    """Reads and caches the fleet's history. There is one per process."""

    def __init__(self) -> None:
        self._quarters: dict[datetime, Pulse] = {}  # finished quarters of an hour
        self._reading = asyncio.Lock()  # concurrent requests wait until the first request has filled the cache

    async def minutes(self, read: Read, since: datetime) -> list[Pulse]:
        """Return one sum for each minute that has pulses, oldest first."""
        found = stretches(await latest_pulses(read, since), MINUTE)
        return [found[at] for at in sorted(found)]

    async def quarters(self, read: Read, since: datetime, now: datetime) -> list[Pulse]:
        """Return one sum for each quarter of an hour, oldest first."""
        async with self._reading:
            latest = await latest_pulses(read, now - _LATELY)
            over = _over(latest, now)
            await self._learn(read, begin(since, QUARTER), over)
        open_ones = stretches((pulse for pulse in latest if pulse.at > over), QUARTER)
        known = self._quarters | open_ones
        return [known[at] for at in _each(begin(since, QUARTER), now) if at in known]

    async def _learn(self, read: Read, since: datetime, over: datetime) -> None:
        self._quarters = {at: each for at, each in self._quarters.items() if at > over - REMEMBERED}
        missing = [at for at in _each(since, over) if at not in self._quarters]
        while missing:
            first = missing[0]
            run = [at for at in missing[:AT_ONCE] if at - first < AT_ONCE * QUARTER]
            found = stretches(await read(first, run[-1] + QUARTER, minutes=True), QUARTER)
            self._quarters |= {at: found.get(at) or Pulse(at=at) for at in run}
            missing = missing[len(run) :]


async def latest_pulses(read: Read, since: datetime) -> list[Pulse]:
    """Read the stored sums per minute, and then the pulses that are newer. There is one sum per minute for all
    processes, so sums are fewer rows than pulses."""
    minutes = await read(since, minutes=True)
    return [*minutes, *await read(minutes[-1].at if minutes else since)]


def _over(latest: list[Pulse], now: datetime) -> datetime:
    """Return the end of the last quarter of an hour for which every sum per minute is stored. The sums are stored in
    the order of their minutes, and may be stored late."""
    made = [pulse.at for pulse in latest if not pulse.process]
    return begin(max(made, default=now - _LATELY), QUARTER)


def _each(since: datetime, until: datetime) -> Iterator[datetime]:
    at = since
    while at < until:
        yield at
        at += QUARTER
