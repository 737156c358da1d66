"""A simulated fleet: 100,000 endpoints, 10 million messages, and a third of the endpoints fail at times.

There are eight workers with an eighth of the endpoints each. They are simulated separately, two at a time. Messages are
accepted for an hour. The simulation goes on until the time budget of the last message ends.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from bench.simulate.plans import DEFAULT
from bench.simulate.world import BEGIN, WORKER, Plan, Watch, World
from hookline.engine.worker import WorkerSettings
from hookline.model.attempts import Sent
from hookline.model.deliveries import LeasedDelivery
from hookline.model.policy import CircuitPolicy
from hookline.model.states import ErrorKind

HOUR = timedelta(hours=1)
END = BEGIN + HOUR + timedelta(seconds=DEFAULT.max_age)
SAMPLE = timedelta(seconds=30)
SAMPLES = 240  # maximum number of samples: those of the first two hours
SOON = timedelta(seconds=10)
MILLISECOND = timedelta(milliseconds=1)
NEVER = BEGIN + timedelta(days=365)

OK = Sent(status=204, started_at=BEGIN)
REFUSED = Sent(error=ErrorKind.REFUSED, started_at=BEGIN)
BROKEN = Sent(status=500, started_at=BEGIN)
TIMED_OUT = Sent(error=ErrorKind.TIMEOUT, started_at=BEGIN)
TOO_MANY = Sent(status=429, started_at=BEGIN)

AT_ONCE = timedelta(milliseconds=2)
DEADLINE = timedelta(seconds=WorkerSettings().deadline)

OURS = Plan("Hookline", DEFAULT, CircuitPolicy())
JITTER = Plan("full jitter alone", DEFAULT, None)


class Sickness(StrEnum):
    REFUSING = "refuses connections"
    FAILING = "answers 500"
    HANGING = "hangs until the deadline"
    FLAKY = "fails every other request"
    BUSY = "takes one a second, 429 to the rest"


WEIGHTS = {Sickness.REFUSING: 30, Sickness.FAILING: 25, Sickness.HANGING: 25, Sickness.FLAKY: 10, Sickness.BUSY: 10}
SPELLS = (10.0, 60.0, 300.0, 1200.0)  # seconds of an outage, plus or minus half
INCURABLE = 0.05  # part of the failing endpoints whose last outage never ends


@dataclass(frozen=True)
class Size:
    workers: int = 8
    endpoints: int = 12_500  # endpoints per worker
    slots: int = WORKER.slots
    share: int = WORKER.share
    volumes: tuple[int, ...] = (5_320, *[300] * 9, *[22] * 90)  # messages to each of a hundred endpoints


class Case(StrEnum):
    OURS = "Hookline"
    WITHOUT_SICK = "without failing endpoints"
    WITHOUT_CIRCUIT = "without circuits"  # only a quarter of the workers is simulated, because this case takes longest

    def workers(self, size: Size) -> range:
        return range(max(1, size.workers // 4) if self is Case.WITHOUT_CIRCUIT else size.workers)


# ── endpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────

GOLDEN = 0.6180339887498949  # fractions of its multiples are spread evenly, which saves a random generator per endpoint


class Healthy:
    """An endpoint with its own response time, plus or minus a fifth."""

    sick = False

    def __init__(self, chance: random.Random) -> None:
        self.micros = chance.randrange(20_000, 200_000)
        self.phase = chance.random()
        self.answers = 0

    def answer(self, now: datetime) -> tuple[Sent, timedelta]:
        return OK, self.takes()

    def takes(self) -> timedelta:
        self.answers += 1
        part = (self.phase + self.answers * GOLDEN) % 1.0
        return timedelta(microseconds=int(self.micros * (0.8 + 0.4 * part)))


class Sick(Healthy):
    """An endpoint that is healthy except during its outages."""

    sick = True

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        kinds = list(WEIGHTS)
        self.kind = chance.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        self.spells = _spells(chance)
        self.next = 0  # index of the current or next outage
        self.recovery: Recovery | None = None  # the recovery from the last outage
        self.coin = random.Random(chance.random()) if self.kind is Sickness.FLAKY else None
        self._second = -1

    def answer(self, now: datetime) -> tuple[Sent, timedelta]:
        return self._ail(now) if self.ill(now) else (OK, self.takes())

    def ill(self, now: datetime) -> bool:
        """Return whether an outage is going on. Calls must be in the order of time."""
        while self.next < len(self.spells) and self.spells[self.next][1] <= now:
            self.next += 1
        return self.next < len(self.spells) and self.spells[self.next][0] <= now

    def _ail(self, now: datetime) -> tuple[Sent, timedelta]:
        match self.kind:
            case Sickness.REFUSING:
                return REFUSED, AT_ONCE
            case Sickness.FAILING:
                return BROKEN, self.takes()
            case Sickness.HANGING:
                return TIMED_OUT, DEADLINE
            case Sickness.FLAKY:
                assert self.coin is not None
                return (BROKEN if self.coin.random() < 0.5 else OK), self.takes()
            case Sickness.BUSY:
                second = (now - BEGIN) // timedelta(seconds=1)
                taken, self._second = second == self._second, second
                return (TOO_MANY if taken else OK), self.takes()


def _spells(chance: random.Random) -> list[tuple[datetime, datetime]]:
    starts = sorted(BEGIN + chance.random() * HOUR for _ in range(chance.randint(1, 3)))
    lengths = [timedelta(seconds=chance.choice(SPELLS) * chance.uniform(0.5, 1.5)) for _ in starts]
    spells = [(start, start + length) for start, length in zip(starts, lengths, strict=True)]
    if chance.random() < INCURABLE:
        spells[-1] = (spells[-1][0], NEVER)
    return spells


@dataclass
class Recovery:
    """The seconds after the first request that found an endpoint healthy again."""

    began_at: datetime
    backlog: int
    seconds: list[int]


# ── measurements ──────────────────────────────────────────────────────────────────────────────────────────────────


class Tally(Struct):
    """The results of one worker, or the sum of several."""

    workers: int = 1
    endpoints: int = 0
    sick: int = 0
    accepted: int = 0
    delivered: int = 0
    dead: int = 0
    open_after_hour: int = 0
    open_after_two: int = 0
    requests: int = 0
    failed: int = 0
    probes: int = 0
    most_in_flight: list[int] = []  # largest sampled number for each worker
    latency: dict[str, dict[int, int]] = {}  # deliveries by milliseconds, for healthy and failing endpoints
    waits: dict[int, int] = {}  # deliveries to healthy endpoints, by milliseconds before their request started
    probed: dict[int, int] = {}  # failing endpoints, by number of probes
    peaks: dict[str, dict[int, int]] = {}  # recoveries by the most requests in a second, for each size of backlog
    open_by_sample: list[int] = []
    sick_requests_by_sample: list[int] = []  # requests to endpoints during an outage


Reading = Callable[[Tally], str]

BACKLOGS = ((1, "1 to 9"), (10, "10 to 99"), (100, "100 to 999"), (1000, "1,000 and more"))


class Census(Watch):
    def __init__(self, endpoints: Sequence[Healthy]) -> None:
        self.endpoints = endpoints
        self.queues: Sequence[Sequence[object]] = []
        self.requests = self.failures = self.dead = self.probes = 0
        self.probed: Counter[int] = Counter()
        self.latency: tuple[Counter[int], Counter[int]] = (
            Counter(),
            Counter(),
        )  # deliveries by milliseconds, for healthy and for failing endpoints
        self.waits: Counter[int] = Counter()
        self.peaks: dict[str, Counter[int]] = {name: Counter() for _, name in BACKLOGS}
        self.to_ill = 0  # requests to endpoints during an outage, since the last sample

    def started(self, no: int, now: datetime, *, probe: bool) -> None:
        self.requests += 1
        endpoint = self.endpoints[no]
        if probe:
            self.probes += 1
            self.probed[no] += 1
        if isinstance(endpoint, Sick):
            self._watch(endpoint, no, now)

    def _watch(self, endpoint: Sick, no: int, now: datetime) -> None:
        before = endpoint.next
        if endpoint.ill(now):
            self.to_ill += 1
            return
        if endpoint.next != before:  # the first request since the last outage
            self.close(endpoint)
            endpoint.recovery = Recovery(now, len(self.queues[no]) + 1, [0] * (SOON // timedelta(seconds=1)))
        if endpoint.recovery is not None and now - endpoint.recovery.began_at < SOON:
            endpoint.recovery.seconds[(now - endpoint.recovery.began_at) // timedelta(seconds=1)] += 1

    def close(self, endpoint: Sick) -> None:
        if (recovery := endpoint.recovery) is not None:
            size = next(name for least, name in reversed(BACKLOGS) if recovery.backlog >= least)
            self.peaks[size][max(recovery.seconds)] += 1
            endpoint.recovery = None

    def delivered(self, job: LeasedDelivery, now: datetime) -> None:
        sick = self.endpoints[job.endpoint_no].sick
        self.latency[sick][rounded((now - job.accepted_at) // MILLISECOND)] += 1
        if not sick:
            self.waits[rounded((job.claimed_at - job.accepted_at) // MILLISECOND)] += 1

    def failed(self, no: int, attempts: int) -> None:
        self.failures += 1

    def died(self, no: int) -> None:
        self.dead += 1


def rounded(millis: int) -> int:
    """Round to three digits above a second, so that the histogram has few entries."""
    grain = 1
    while millis // grain >= 1000:
        grain *= 10
    return millis // grain * grain


# ── one worker ────────────────────────────────────────────────────────────────────────────────────────────────────


def simulate(size: Size, seed: int, worker: int, case: Case) -> Tally:
    """Simulate one worker of the fleet. Endpoints and messages are the same in every case."""
    chance = random.Random(f"fleet {seed} {worker}")
    ill = set(chance.sample(range(size.endpoints), size.endpoints // 3))
    everyone = [(Sick if no in ill else Healthy)(random.Random(chance.random())) for no in range(size.endpoints)]
    volumes = [size.volumes[no % len(size.volumes)] for no in range(size.endpoints)]
    chosen = [no for no in range(size.endpoints) if case is not Case.WITHOUT_SICK or not everyone[no].sick]
    return _Run(size, seed, [everyone[no] for no in chosen], [volumes[no] for no in chosen], case).tally()


class _Run:
    def __init__(self, size: Size, seed: int, endpoints: Sequence[Healthy], volumes: Sequence[int], case: Case) -> None:
        self.endpoints = endpoints
        self.volumes = volumes
        self.sent = [0] * len(endpoints)
        self.census = Census(endpoints)
        settings = WorkerSettings(slots=size.slots, share=size.share)
        plan = JITTER if case is Case.WITHOUT_CIRCUIT else OURS
        self.world = World(plan, endpoints, self.census, f"fleet {seed}", settings)
        self.census.queues = self.world.queues
        self.open: list[int] = []
        self.to_ill: list[int] = []
        self.most = 0

    def tally(self) -> Tally:
        for no in range(len(self.endpoints)):
            self._plan_next(no)
        self.world.at(BEGIN + SAMPLE, self._sample)
        self.world.run(END)
        census = self.census
        sick = [endpoint for endpoint in self.endpoints if isinstance(endpoint, Sick)]
        for endpoint in sick:
            census.close(endpoint)
        return Tally(
            endpoints=len(self.endpoints),
            sick=len(sick),
            accepted=sum(self.volumes),
            delivered=sum(sum(latency.values()) for latency in census.latency),
            dead=census.dead + self.world.waiting(),  # the time budget of the remaining deliveries has ended
            open_after_hour=self.open[HOUR // SAMPLE - 1],
            open_after_two=self.open[2 * HOUR // SAMPLE - 1],
            requests=census.requests,
            failed=census.failures,
            probes=census.probes,
            most_in_flight=[self.most],
            latency={name: dict(found) for name, found in zip(("healthy", "sick"), census.latency, strict=True)},
            waits=dict(census.waits),
            probed=dict(Counter(census.probed[no] for no, endpoint in enumerate(self.endpoints) if endpoint.sick)),
            peaks={name: dict(found) for name, found in census.peaks.items()},
            open_by_sample=self.open,
            sick_requests_by_sample=self.to_ill,
        )

    def _plan_next(self, no: int) -> None:
        """Schedule the endpoint's next message. Each message falls into its own equal part of the hour."""
        number, volume = self.sent[no], self.volumes[no]
        if number < volume:
            self.sent[no] = number + 1
            part = (number + (self.endpoints[no].phase + number * GOLDEN) % 1.0) / volume
            self.world.at(BEGIN + timedelta(microseconds=int(part * 3_600_000_000)), self._arrive, no)

    def _arrive(self, no: int) -> None:
        self.world.publish(no)
        self._plan_next(no)

    def _sample(self, _: None) -> None:
        world = self.world
        self.open.append(world.waiting())
        self.to_ill.append(self.census.to_ill)
        self.census.to_ill = 0
        self.most = max(self.most, world.slots.used)
        if len(self.open) < SAMPLES:
            world.at(world.now + SAMPLE, self._sample)


# ── sum of all workers ────────────────────────────────────────────────────────────────────────────────────────────


def merge(tallies: Sequence[Tally]) -> Tally:
    """Sum the results of several workers. `most_in_flight` keeps one number per worker."""
    whole = Tally(
        most_in_flight=[most for tally in tallies for most in tally.most_in_flight],
        open_by_sample=_sums([tally.open_by_sample for tally in tallies]),
        sick_requests_by_sample=_sums([tally.sick_requests_by_sample for tally in tallies]),
        waits=_union([tally.waits for tally in tallies]),
        probed=_union([tally.probed for tally in tallies]),
        latency={name: _union([tally.latency[name] for tally in tallies]) for name in tallies[0].latency},
        peaks={name: _union([tally.peaks[name] for tally in tallies]) for name in tallies[0].peaks},
    )
    for field in Tally.__struct_fields__:
        if isinstance(getattr(whole, field), int):
            setattr(whole, field, sum(getattr(tally, field) for tally in tallies))
    return whole


def _sums(lists: Sequence[Sequence[int]]) -> list[int]:
    return [sum(numbers) for numbers in zip(*lists, strict=True)]


def _union(histograms: Sequence[dict[int, int]]) -> dict[int, int]:
    whole: Counter[int] = Counter()
    for histogram in histograms:
        whole.update(histogram)
    return dict(sorted(whole.items()))


def percentile(histogram: Mapping[int, int], part: float) -> int:
    """Return the smallest value that at least the fraction `part` of all values does not exceed."""
    wanted, seen = part * sum(histogram.values()), 0
    for value, number in sorted(histogram.items()):
        seen += number
        if seen >= wanted:
            return value
    return 0
