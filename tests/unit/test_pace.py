"""The pace of a lane: a slow-down answer lowers it once, successes raise it, and it settles just below what is
accepted."""

from __future__ import annotations

import heapq
import random
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hookline.model.lanes import Lane, LaneEventKind
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, Health
from hookline.rules.lane.admission import Admission, admit, after_claim, effective_rate
from hookline.rules.lane.circuit import LaneOutcome, fold
from hookline.rules.lane.pace import FLOOR, QUIET, WELL_ABOVE, can_slow, lower_pace, raise_pace, without_pace
from tests.support.lanes import BEGIN

POLICY = CircuitPolicy(recovery_window=3, recovery_rate=8.0, recovery_step=1.0, recovery_done=64)
START = 24.0  # the rate at which a recovery begins
K = LaneEventKind


def ahead(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def a_lane(**fields: object) -> Lane:
    return replace(Lane(endpoint_no=29, app_no=6), **fields)


def paced(pace: float, **fields: object) -> Lane:
    begun: dict[str, object] = {"pace": pace, "pace_at": ahead(-50), "pace_top": 40.0, "slowed_at": ahead(-60)}
    return a_lane(**(begun | fields))


def slowed_down(lane: Lane, at: float = 0.0, claimed: float | None = None) -> Lane:
    return lower_pace(lane, now=ahead(at), claimed_at=None if claimed is None else ahead(claimed), policy=POLICY)


def answered(lane: Lane, at: float = 0.0, claimed: float | None = None) -> Lane:
    return raise_pace(lane, now=ahead(at), claimed_at=None if claimed is None else ahead(claimed), policy=POLICY)


# ── slower ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unlimited_lane_goes_as_fast_as_a_recovery_begins():
    lane = slowed_down(a_lane())
    assert lane == a_lane(pace=START, pace_at=BEGIN, pace_top=None, slowed_at=BEGIN)


@pytest.mark.parametrize(("throttle", "pace"), [(10.0, 5.0), (47.0, 23.5), (400.0, START)])
def test_a_throttled_lane_goes_at_half_its_throttle_if_that_is_less(throttle, pace):
    lane = slowed_down(a_lane(throttle_rate=throttle))
    assert (lane.pace, lane.pace_top) == (pace, throttle)


def test_a_recovering_lane_goes_at_half_of_what_its_window_allows():
    lane = slowed_down(a_lane(circuit=Circuit.RECOVERING, window=2, window_at=ahead(-1)))
    assert (lane.pace, lane.pace_top) == (8.0, 16.0)


def test_the_answers_to_one_burst_lower_the_pace_once():
    lane = slowed_down(a_lane())
    for late in (0.01, 0.5, 0.99):
        assert slowed_down(lane, at=late, claimed=-0.2) == lane
    assert (
        slowed_down(lane, at=7.0, claimed=-0.2) == lane
    )  # a slow answer to a request from before the pace was lowered
    assert slowed_down(lane, at=0.5, claimed=0.2) == lane
    assert slowed_down(lane, at=1.0, claimed=0.2).pace == START / 2


def test_a_slow_down_answer_right_after_a_raise_counts():
    """A fixed window accepts the first requests of each second and refuses the others. If those were ignored, the pace
    would grow without limit."""
    raised = paced(22.0, pace_at=ahead(-0.1))
    assert slowed_down(raised, claimed=-0.2).pace == 11.0


def test_the_refused_rate_is_the_pace_before_the_cut():
    lane = slowed_down(paced(30.0, pace_top=64.0))
    assert (lane.pace, lane.pace_top) == (15.0, 30.0)
    again = slowed_down(lane, at=1.5)
    assert (again.pace, again.pace_top) == (7.5, 30.0)


def test_a_second_cut_in_a_row_marks_the_first_pace_as_refused():
    lane = slowed_down(slowed_down(a_lane()), at=1.0)
    assert (lane.pace, lane.pace_top) == (START / 2, START)


def test_no_pace_is_slower_than_the_floor():
    lane, at = a_lane(), 0.0
    while can_slow(lane, POLICY):
        at += 1.0
        lane = slowed_down(lane, at=at)
    assert lane.pace == FLOOR
    assert not can_slow(a_lane(throttle_rate=FLOOR / 2), POLICY)


# ── quicker ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lane_without_a_pace_is_unchanged():
    lane = a_lane(throttle_rate=3.0)
    assert answered(lane) is lane


@pytest.mark.parametrize("bound", [{"throttle_rate": 8.0}, {"circuit": Circuit.RECOVERING, "window": 1}])
def test_a_slow_down_answer_slows_a_lane_below_its_pace(bound):
    """The lane is limited by a throttle, or by the window of a recovery."""
    lane = paced(320.0, slowed_at=ahead(-60), **bound)
    assert effective_rate(lane, POLICY) == 8.0
    assert effective_rate(slowed_down(lane), POLICY) == 4.0


def test_the_pace_doubles_until_a_refused_rate_is_known():
    lane, paces = slowed_down(a_lane()), []
    for at in range(1, 10):
        lane = answered(lane, at=float(at))
        paces.append(lane.pace)
    assert paces == [
        48,
        96,
        192,
        384,
        768,
        1536,
        None,
        None,
        None,
    ]  # a recovery ends at 64 * 8 a second; at 4 times that rate the lane needs no pace


def test_the_pace_rises_half_way_to_the_refused_rate_and_then_slowly_beyond():
    lane, paces = paced(20.0), []
    for at in range(7):
        lane = answered(lane, at=float(at))
        paces.append(lane.pace)
    assert paces == pytest.approx([30, 35, 37.5, 39.5, 41.5, 43.5, 45.5])


def test_from_far_below_it_doubles():
    lane, paces = paced(0.1, slowed_at=ahead(-1)), []
    for at in range(0, 60, 5):
        lane = answered(lane, at=float(at))
        paces.append(lane.pace)
    assert paces[:7] == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8])
    assert all(after <= 2 * before for before, after in pairwise(paces))


def test_it_rises_once_a_step_and_by_an_answer_to_a_request_at_this_pace():
    lane = paced(20.0, pace_at=BEGIN, slowed_at=BEGIN)
    assert answered(lane, at=0.9) is lane
    assert answered(lane, at=5.0, claimed=-0.1) is lane
    raised = answered(lane, at=5.0, claimed=0.1)
    assert (raised.pace, raised.pace_at, raised.slowed_at) == (30.0, ahead(5.0), BEGIN)


def test_it_does_not_rise_past_the_throttle():
    lane = paced(20.0, throttle_rate=22.0)
    lane = answered(lane)
    assert lane.pace == 22.0
    assert answered(lane, at=2.0) is lane
    lowered = replace(lane, throttle_rate=3.0)
    assert answered(lowered, at=3.0) is lowered


def test_well_above_the_refused_rate_the_pace_is_forgotten():
    lane = paced(WELL_ABOVE * 40.0 - 2.5)
    assert answered(lane).pace == pytest.approx(159.5)
    assert answered(replace(lane, pace=158.0)) == a_lane()


def test_long_after_the_last_slow_down_answer_the_pace_is_forgotten():
    lane = paced(0.5, throttle_rate=1.0, slowed_at=BEGIN, pace_at=ahead(599.5))
    assert answered(lane, at=599.9) is lane
    assert answered(lane, at=QUIET.total_seconds()) == a_lane(throttle_rate=1.0)


lanes = st.builds(
    paced,
    st.floats(FLOOR, 5000.0),
    pace_at=st.floats(-700.0, 0.0).map(ahead),
    pace_top=st.none() | st.floats(FLOOR, 5000.0),
    slowed_at=st.floats(-700.0, 0.0).map(ahead),
    throttle_rate=st.none() | st.floats(0.001, 5000.0),
)


@given(lane=lanes, claimed=st.none() | st.floats(-800.0, 0.0))
def test_a_slow_down_answer_never_raises_the_pace_and_a_success_never_lowers_it(lane, claimed):
    down, up = slowed_down(lane, claimed=claimed), answered(lane, claimed=claimed)
    assert down.pace is not None
    assert FLOOR <= down.pace <= lane.pace
    assert down.pace >= min(lane.pace, lane.throttle_rate or lane.pace) / 2
    assert up.pace is None or lane.pace <= up.pace <= 2 * lane.pace
    assert (up.pace is None) == (up == without_pace(lane))
    assert replace(without_pace(down), tat=lane.tat) == replace(without_pace(lane), tat=lane.tat)


# ── against endpoints that refuse ─────────────────────────────────────────────────────────────────────────────────


class Limiter(ABC):
    @abstractmethod
    def takes(self, at: float) -> bool: ...

    def back_at(self, at: float) -> datetime | None:
        """Return the time that a Retry-After header names, or None without such a header."""
        return None


@dataclass
class Bucket(Limiter):
    """An endpoint that accepts `rate` requests a second, and `burst` of them at once."""

    rate: float
    burst: float
    left: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        self.left = self.burst

    def takes(self, at: float) -> bool:
        self.left = min(self.burst, self.left + (at - self.at) * self.rate)
        self.at = at
        taken = self.left >= 1
        self.left -= taken
        return taken


@dataclass
class Minute(Limiter):
    """An endpoint that accepts `most` requests in each `span` seconds of the clock and refuses all others."""

    most: int
    span: float
    tells: bool = False  # whether the endpoint sends Retry-After
    seen: Counter[int] = field(default_factory=Counter)

    def takes(self, at: float) -> bool:
        self.seen[int(at // self.span)] += 1
        return self.seen[int(at // self.span)] <= self.most

    def back_at(self, at: float) -> datetime | None:
        return ahead((at // self.span + 1) * self.span) if self.tells else None


@dataclass
class Endless:
    """A lane that is never empty, in virtual time, with the real admission, circuit and pace."""

    endpoint: Limiter
    latency: float
    slots: int = 400
    policy: CircuitPolicy = field(default_factory=CircuitPolicy)
    lane: Lane = field(default_factory=a_lane)
    now: datetime = BEGIN
    good: Counter[int] = field(default_factory=Counter)  # accepted requests by second
    refused: Counter[int] = field(default_factory=Counter)
    kinds: list[LaneEventKind] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(11))
    flying: list[tuple[datetime, int, datetime, Admission, int, bool]] = field(default_factory=list)
    started: int = 0

    @property
    def seconds(self) -> float:
        return (self.now - BEGIN).total_seconds()

    def run(self, seconds: float) -> None:
        while self.seconds < seconds:
            again = self.claim()
            ends = [self.flying[0][0]] if self.flying else []
            self.now = max(self.now + timedelta(microseconds=1), min([*ends, *([] if again is None else [again])]))
            self.finish()

    def claim(self) -> datetime | None:
        free = self.slots - len(self.flying)
        admission = admit(self.lane, now=self.now, want=free, room=None, policy=self.policy)
        self.lane = after_claim(self.lane, admission, taken=admission.quota, left_floor=BEGIN, now=self.now, lease=60.0)
        for _ in range(admission.quota):
            self.started += 1
            ends = self.now + timedelta(seconds=self.latency * self.chance.uniform(0.8, 1.2))
            taken = self.endpoint.takes(self.seconds)
            heapq.heappush(self.flying, (ends, self.started, self.now, admission, self.lane.epoch, taken))
        return None if free <= admission.quota else admission.rest_at

    def finish(self) -> None:
        outcomes = []
        while self.flying and self.flying[0][0] <= self.now:
            _, _, claimed_at, admission, epoch, taken = heapq.heappop(self.flying)
            (self.good if taken else self.refused)[int(self.seconds)] += 1
            outcomes.append(
                LaneOutcome(
                    health=Health.GOOD if taken else Health.BAD,
                    epoch=epoch,
                    claimed_at=claimed_at,
                    counted=admission.counted,
                    probe=admission.probe,
                    slow_down=not taken,
                    hold_until=None if taken else self.endpoint.back_at(self.seconds),
                )
            )
        folded = fold(self.lane, outcomes, now=self.now, policy=self.policy, chance=self.chance)
        self.lane = folded.lane
        self.kinds += [event.kind for event in folded.events]

    def rates(self, first: int, last: int) -> tuple[float, float]:
        """Return accepted and refused requests per second."""
        span = range(first, last)
        return tuple(sum(seen[at] for at in span) / len(span) for seen in (self.good, self.refused))


@dataclass
class Few(Limiter):
    """An endpoint that accepts `most` requests at once."""

    most: int
    world: Endless | None = None

    def takes(self, at: float) -> bool:
        assert self.world is not None
        return sum(taken for *_, taken in self.world.flying) < self.most


@pytest.mark.parametrize(("most", "latency"), [(5, 0.05), (5, 5.0), (1, 2.0)])
def test_an_endpoint_that_takes_few_at_once_gets_few_at_once(most, latency):
    endpoint = Few(most)
    endpoint.world = world = Endless(endpoint, latency)
    world.run(300.0)
    taken, refused = world.rates(120, 300)
    assert taken >= 0.6 * most / latency
    assert refused <= 0.1
    assert world.kinds == [K.LANE_SLOWED]


@pytest.mark.parametrize(
    ("endpoint", "latency", "least"),
    [
        (Bucket(rate=10.0, burst=10.0), 0.05, 9.0),
        (Bucket(rate=10.0, burst=100.0), 0.05, 9.0),
        (Bucket(rate=10.0, burst=1.0), 1.0, 7.0),
        (Bucket(rate=100.0, burst=20.0), 0.05, 85.0),
        (Minute(most=10, span=1.0), 0.05, 7.5),
        (Minute(most=100, span=60.0, tells=True), 0.05, 1.6),
        (Bucket(rate=0.5, burst=1.0), 0.05, 0.3),
    ],
    ids=["bucket", "deep bucket", "slow answers", "fast", "fixed window", "and tells", "one in two seconds"],
)
def test_the_pace_settles_just_below_what_the_endpoint_accepts(endpoint, latency, least):
    world = Endless(endpoint, latency)
    world.run(300.0)
    taken, refused = world.rates(120, 300)
    assert taken >= least
    assert refused <= max(0.1, 0.06 * taken)
    assert [kind for kind in world.kinds if kind != K.LANE_HELD] == [K.LANE_SLOWED]
    assert world.lane.circuit == Circuit.CLOSED


def test_an_endpoint_that_accepts_more_again_gets_more_and_then_everything():
    world = Endless(Bucket(rate=10.0, burst=10.0), 0.05, slots=100)
    world.run(100.0)
    world.endpoint = Bucket(rate=1e9, burst=1e9)
    while world.lane.pace is not None and world.seconds < 600:
        world.run(world.seconds + 1)
    assert world.kinds == [K.LANE_SLOWED, K.LANE_AT_SPEED]


def test_an_endpoint_that_only_ever_refuses_is_an_outage_in_the_end():
    world = Endless(Bucket(rate=0.0, burst=0.0), 0.05)
    world.run(1200.0)
    assert world.lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN)
    assert world.kinds[:2] == [K.LANE_SLOWED, K.CIRCUIT_OPENED]
    assert world.started <= world.slots + 150
