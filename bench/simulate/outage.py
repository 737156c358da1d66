"""The load on one endpoint with a large backlog, after an outage or with a rate limit, under each retry strategy."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bench.simulate.plans import DEFAULT, FULL_JITTER, OURS
from bench.simulate.world import BEGIN, Endpoint, Plan, Watch, World
from hookline.model.attempts import Sent
from hookline.model.deliveries import LeasedDelivery

MESSAGES = 5_000
BACKLOGS = (1_000, 5_000, 20_000, 50_000)
AWAY = timedelta(seconds=30)
ANSWERING = timedelta(milliseconds=50)
LONGEST = timedelta(hours=6)
MOST = 120_000  # number of requests after which the simulation ends

TENTHS = 10  # bins per second
BIN = timedelta(milliseconds=100)
SOON = 10  # seconds in which the first peak is measured

OK = Sent(status=204, started_at=BEGIN)
UNAVAILABLE = Sent(status=503, started_at=BEGIN)
TOO_MANY = Sent(status=429, started_at=BEGIN)


class Away:
    """An endpoint that is down at first, and then accepts any number of requests."""

    def __init__(self, away: timedelta = AWAY) -> None:
        self.back_at = BEGIN + away

    def answer(self, now: datetime) -> tuple[Sent, timedelta]:
        return (OK if now >= self.back_at else UNAVAILABLE), ANSWERING


class Fragile(Away):
    """Like `Away`, but more than `LIMIT` requests within a second cause another outage."""

    LIMIT = 400
    REST = timedelta(seconds=10)

    def __init__(self) -> None:
        super().__init__()
        self.falls = 0
        self._last_second: deque[datetime] = deque()

    def answer(self, now: datetime) -> tuple[Sent, timedelta]:
        if now < self.back_at:
            return UNAVAILABLE, ANSWERING
        seen = self._last_second
        seen.append(now)
        while now - seen[0] >= timedelta(seconds=1):
            seen.popleft()
        if len(seen) <= self.LIMIT:
            return OK, ANSWERING
        seen.clear()
        self.falls += 1
        self.back_at = now + self.REST
        return UNAVAILABLE, ANSWERING


class Limited:
    """An endpoint that accepts `LIMIT` requests per second and answers 429 to all others."""

    LIMIT = 100

    def __init__(self) -> None:
        self.refused = 0
        self._second = -1
        self._taken = 0

    def answer(self, now: datetime) -> tuple[Sent, timedelta]:
        second = (now - BEGIN) // timedelta(seconds=1)
        if second != self._second:
            self._second, self._taken = second, 0
        self._taken += 1
        if self._taken <= self.LIMIT:
            return OK, ANSWERING
        self.refused += 1
        return TOO_MANY, ANSWERING


Scenario = type[Away] | type[Fragile] | type[Limited]


class Seen(Watch):
    """The requests to one endpoint in bins of a tenth of a second, and the results of the deliveries."""

    def __init__(self) -> None:
        self.bins: list[int] = []
        self.requests = 0
        self.delivered_at: list[datetime] = []
        self.wasted = 0
        self.worn_out = 0  # deliveries that reached the maximum number of attempts of the default policy

    def started(self, no: int, now: datetime, *, probe: bool) -> None:
        place = (now - BEGIN) // BIN
        if place >= len(self.bins):
            self.bins.extend([0] * (place + 1 - len(self.bins)))
        self.bins[place] += 1
        self.requests += 1

    def delivered(self, job: LeasedDelivery, now: datetime) -> None:
        self.delivered_at.append(now)

    def failed(self, no: int, attempts: int) -> None:
        self.wasted += 1
        self.worn_out += attempts == DEFAULT.max_attempts

    def load(self) -> list[int]:
        """Return the number of requests in each second."""
        return [sum(self.bins[first : first + TENTHS]) for first in range(0, len(self.bins), TENTHS)]

    def peak(self, start: float, end: float) -> int:
        """Return the largest number of requests within one second between two times, in seconds from the beginning."""
        bins = self.bins[round(start * TENTHS) : round(end * TENTHS)]
        return max((sum(bins[first : first + TENTHS]) for first in range(len(bins))), default=0)


@dataclass(frozen=True)
class Outcome:
    """The result of one strategy against one endpoint. Times are seconds from the beginning."""

    plan: Plan
    seen: Seen
    endpoint: Endpoint
    answered_at: float  # time of the first delivery
    drained_at: float | None  # time of the last delivery; None if the simulation ended before

    @property
    def ours(self) -> bool:
        return self.plan.circuit is not None


def simulate(plan: Plan, endpoint: Endpoint, seed: int, messages: int = MESSAGES) -> Outcome:
    seen = Seen()
    world = World(plan, [endpoint], seen, f"outage {seed}")
    world.at(BEGIN, lambda _: world.publish(0, messages))
    until = BEGIN
    while len(seen.delivered_at) < messages and seen.requests < MOST and until < BEGIN + LONGEST:
        until += timedelta(seconds=1)
        world.run(until)
    first = min(seen.delivered_at, default=until)
    drained = len(seen.delivered_at) == messages
    return Outcome(
        plan=plan,
        seen=seen,
        endpoint=endpoint,
        answered_at=_seconds(first),
        drained_at=_seconds(max(seen.delivered_at)) if drained else None,
    )


def _seconds(at: datetime) -> float:
    return round((at - BEGIN).total_seconds(), 1)


@dataclass(frozen=True)
class Drain:
    """Seconds from the first to the last delivery of a backlog."""

    messages: int
    unlimited: float  # with a healthy endpoint and no limits
    ours: float  # with Hookline's defaults, after an outage


def drains(backlogs: Sequence[int], seed: int) -> list[Drain]:
    return [
        Drain(messages, _drain(FULL_JITTER, timedelta(0), messages, seed), _drain(OURS, AWAY, messages, seed))
        for messages in backlogs
    ]


def _drain(plan: Plan, away: timedelta, messages: int, seed: int) -> float:
    outcome = simulate(plan, Away(away), seed, messages)
    assert outcome.drained_at is not None
    return outcome.drained_at - outcome.answered_at


def compare(plans: Sequence[Plan], scenario: Scenario, seed: int) -> list[Outcome]:
    return [simulate(plan, scenario(), seed) for plan in plans]
