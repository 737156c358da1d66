"""What the whole fleet did, stretch by stretch, from its pulses. The charts of the dashboard are made of it.

A week has ten thousand minutes of pulses, too many to be read for every look at a page: quarters of an hour that are over are
added up once, and remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from datetime import datetime, timedelta
from operator import add
from typing import Any, Protocol

from msgspec import Struct

from hookline.clock import EPOCH
from hookline.model.pulses import Pulse, Row

MINUTE, QUARTER = timedelta(minutes=1), timedelta(minutes=15)
AT_ONCE = 24  # quarters that are read at a time, so that others get their turn in between
REMEMBERED = timedelta(days=7, hours=1)
_LATELY = timedelta(hours=1)  # in which the last minute is looked for


class Read(Protocol):
    """`Store.pulses`."""

    def __call__(
        self, since: datetime, until: datetime | None = None, *, minutes: bool = False
    ) -> Coroutine[Any, Any, list[Pulse]]: ...


class Work(Struct, kw_only=True):
    """Sums over one stretch of time."""

    at: datetime  # its start
    accepted: float = 0.0  # messages
    delivered: float = 0.0  # attempts, by what came of them
    retried: float = 0.0
    dead: float = 0.0
    reasons: dict[str, float] = {}  # deliveries that died, by why; also those that died while they waited
    latency: Row = []  # accepted to delivered
    first_latency: Row = []  # accepted to the first attempt
    lag: Row = []  # due to started
    used: Row = []  # attempts of what was delivered

    @property
    def attempts(self) -> float:
        return self.delivered + self.retried + self.dead

    def count(self, pulse: Pulse) -> None:
        self.accepted += pulse.accepted
        self.delivered += pulse.attempts.get("delivered", 0.0)
        self.retried += pulse.attempts.get("retry", 0.0)
        self.dead += pulse.attempts.get("dead", 0.0)
        self._more(pulse.dead, pulse.latency, pulse.first_latency, pulse.lag, pulse.used)

    def take(self, other: Work) -> None:
        self.accepted += other.accepted
        self.delivered += other.delivered
        self.retried += other.retried
        self.dead += other.dead
        self._more(other.reasons, other.latency, other.first_latency, other.lag, other.used)

    def _more(self, reasons: dict[str, float], latency: Row, first_latency: Row, lag: Row, used: Row) -> None:
        if reasons:
            self.reasons = {
                name: self.reasons.get(name, 0.0) + reasons.get(name, 0.0) for name in self.reasons | reasons
            }
        self.latency = _sum(self.latency, latency)
        self.first_latency = _sum(self.first_latency, first_latency)
        self.lag = _sum(self.lag, lag)
        self.used = _sum(self.used, used)


def _sum(one: Row, other: Row) -> Row:
    """Those of a release with other buckets are left out."""
    if not other or (one and len(one) != len(other)):
        return one
    return list(map(add, one, other)) if one else other


def stretches(pulses: Iterable[Pulse], length: timedelta) -> dict[datetime, Work]:
    """By their start. A pulse is of the stretch in which it ended; one that ended with it is of it, not of the next."""
    found: dict[datetime, Work] = {}
    for pulse in pulses:
        start = begin(pulse.at - timedelta(microseconds=1), length)
        if start not in found:
            found[start] = Work(at=start)
        found[start].count(pulse)
    return found


def together(found: Iterable[Work], at: datetime) -> Work:
    total = Work(at=at)
    for each in found:
        total.take(each)
    return total


def begin(at: datetime, length: timedelta) -> datetime:
    """Of the stretch that has this instant in it."""
    return at - (at - EPOCH) % length


class History:
    """One per process."""

    def __init__(self) -> None:
        self._quarters: dict[datetime, Work] = {}  # that are over
        self._reading = asyncio.Lock()  # who looks at a week first reads it for all

    async def minutes(self, read: Read, since: datetime) -> list[Work]:
        """Those in which something was told, oldest first."""
        found = stretches(await _latest(read, since), MINUTE)
        return [found[at] for at in sorted(found)]

    async def quarters(self, read: Read, since: datetime, now: datetime) -> list[Work]:
        """All of them, oldest first."""
        async with self._reading:
            latest = await _latest(read, now - _LATELY)
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
            self._quarters |= {at: found.get(at) or Work(at=at) for at in run}
            missing = missing[len(run) :]


async def _latest(read: Read, since: datetime) -> list[Pulse]:
    """By the minute as far as there are minutes, and then as they came."""
    minutes = await read(since, minutes=True)
    return [*minutes, *await read(minutes[-1].at if minutes else since)]


def _over(latest: list[Pulse], now: datetime) -> datetime:
    """Until when every minute has been made: they are made in order, and late where nobody is there to make them."""
    made = [pulse.at for pulse in latest if not pulse.process]
    return begin(max(made, default=now - _LATELY), QUARTER)


def _each(since: datetime, until: datetime) -> Iterator[datetime]:
    at = since
    while at < until:
        yield at
        at += QUARTER
