"""Healthy endpoints beside endpoints that hang, in one application and in many, from the first second on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from bench.simulate.fleet import DEADLINE, MILLISECOND, OURS, TIMED_OUT, Healthy
from bench.simulate.world import BEGIN, Endpoint, Watch, World
from hookline.model.attempts import Sent
from hookline.model.deliveries import LeasedDelivery

HEALTHY = 200  # healthy endpoints
RATE = 200  # messages per second to all healthy endpoints together
SECONDS = 60
STEP = timedelta(seconds=1 / RATE)


class Crowd(Struct, frozen=True):
    """The endpoints that hang. All of their messages are accepted at the start."""

    name: str
    endpoints: int
    messages: int  # for each endpoint


NOBODY = Crowd("none", 0, 0)
CROWDS = (
    NOBODY,
    Crowd("one endpoint that hangs, 100,000 messages waiting", 1, 100_000),
    Crowd("1,000 endpoints that hang, 4 messages each", 1_000, 4),
)


class Outcome(Struct, frozen=True):
    crowd: Crowd
    together: bool  # all endpoints belong to one application; otherwise each has its own
    waits: dict[int, int]  # deliveries to healthy endpoints, by milliseconds from accepted to claimed
    most_hanging: int  # the largest number of requests in flight to endpoints that hang


class Hanging:
    def answer(self, _now: datetime) -> tuple[Sent, timedelta]:
        return TIMED_OUT, DEADLINE


class _Waits(Watch):
    def __init__(self) -> None:
        self.waits: Counter[int] = Counter()
        self.hanging = self.most_hanging = 0

    def started(self, no: int, now: datetime, *, probe: bool) -> None:
        if no >= HEALTHY:
            self.hanging += 1
            self.most_hanging = max(self.most_hanging, self.hanging)

    def failed(self, no: int, attempts: int) -> None:
        self.hanging -= 1

    def delivered(self, job: LeasedDelivery, now: datetime) -> None:
        self.waits[(job.claimed_at - job.accepted_at) // MILLISECOND] += 1


def simulate(crowd: Crowd, *, together: bool, seed: int) -> Outcome:
    """Simulate one worker that has just started. It knows nothing about the endpoints."""
    chance = random.Random(f"isolation {seed}")
    endpoints: list[Endpoint] = [
        *(Healthy(chance) for _ in range(HEALTHY)),
        *(Hanging() for _ in range(crowd.endpoints)),
    ]
    watch = _Waits()
    everyone = len(endpoints) if together else 1
    world = World(OURS, endpoints, watch, f"isolation {seed}", per_application=everyone)
    for no in range(HEALTHY, len(endpoints)):
        world.at(BEGIN, lambda no: world.publish(no, crowd.messages), no)
    for number in range(RATE * SECONDS):
        world.at(BEGIN + number * STEP, world.publish, chance.randrange(HEALTHY))
    world.run(BEGIN + timedelta(seconds=SECONDS) + 2 * DEADLINE)
    return Outcome(crowd, together, dict(sorted(watch.waits.items())), watch.most_hanging)


def compare(seed: int) -> Sequence[Outcome]:
    return [simulate(crowd, together=together, seed=seed) for together in (True, False) for crowd in CROWDS]
