"""Admission of a lane: never above its limits, never below its rate, and never asleep with work to do."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from hookline.model.lanes import Lane
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, EndpointStatus, Health
from hookline.rules.lane.admission import (
    REFUSED_PAUSE,
    Admission,
    admit,
    advance,
    after_claim,
    burst,
    gcra,
    limited,
    next_start,
    room_at_pace,
    window_of,
)
from hookline.rules.lane.pace import FLOOR, QUIET
from tests.support.lanes import BEGIN, Job, Token, World

POLICY = CircuitPolicy()


def ahead(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def a_lane(**fields: object) -> Lane:
    return replace(Lane(endpoint_no=19, app_no=4), **fields)


def asked(lane: Lane, want: int = 50, crowded: int | None = None) -> Admission:
    return admit(lane, now=BEGIN, want=want, room=crowded, policy=POLICY)


# ── admission ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_healthy_unlimited_lane_admits_everything_and_is_not_written():
    lane = a_lane()
    admission = asked(lane)
    assert admission == Admission(quota=50, rest_at=BEGIN)
    assert not limited(lane, POLICY)
    assert after_claim(lane, admission, taken=50, left_floor=ahead(-3), now=BEGIN, lease=45.0) is lane


@pytest.mark.parametrize("status", [EndpointStatus.PAUSED, EndpointStatus.DISABLED, EndpointStatus.DELETED])
@pytest.mark.parametrize("circuit", Circuit)
def test_a_lane_that_is_not_active_admits_nothing_and_wakes_nobody(status, circuit):
    assert asked(a_lane(status=status, circuit=circuit, probe_at=ahead(-1))) == Admission(quota=0, rest_at=None)


def test_a_held_lane_wakes_when_its_hold_ends():
    assert asked(a_lane(held_until=ahead(12))) == Admission(quota=0, rest_at=ahead(12))
    assert asked(a_lane(held_until=BEGIN)).quota == 50


def test_a_lane_that_holds_its_share_of_the_worker_is_left_to_others():
    assert asked(a_lane(), crowded=0) == Admission(quota=0, rest_at=BEGIN + REFUSED_PAUSE, lane_full=True)
    assert asked(a_lane(), crowded=-3).quota == 0
    assert asked(a_lane(), crowded=8) == Admission(quota=8, rest_at=BEGIN)
    assert asked(a_lane(concurrency=5), crowded=8).quota == 5
    assert asked(a_lane(concurrency=9), crowded=8).quota == 8


def test_a_failing_lane_is_narrowed_before_its_circuit_opens():
    doubtful = a_lane(failures=POLICY.threshold, failing_since=ahead(-0.1))
    assert limited(doubtful, POLICY)
    admission = asked(doubtful)
    assert (admission.quota, admission.counted) == (1, True)
    assert admission.rate == POLICY.recovery_window * POLICY.recovery_rate
    assert asked(a_lane(failures=POLICY.threshold, in_flight=POLICY.recovery_window)).waits
    assert asked(a_lane(failures=POLICY.threshold - 1, failing_since=ahead(-0.1))).quota == 50


def test_a_lane_with_a_pace_starts_and_holds_no_more_than_that():
    lane = a_lane(pace=40.0)
    assert limited(lane, POLICY)
    assert asked(lane) == Admission(quota=2, rest_at=BEGIN, counted=True, rate=40.0)
    assert asked(replace(lane, throttle_rate=20.0)).rate == 20.0
    assert asked(replace(lane, throttle_rate=90.0)).rate == 40.0
    assert asked(replace(lane, in_flight=39)).quota == 1
    assert asked(replace(lane, in_flight=40)) == Admission(quota=0, rest_at=None, waits=True)
    assert asked(a_lane(pace=FLOOR)).quota == 1


def test_a_claim_that_wants_nothing_gets_nothing_not_even_a_probe():
    lane = a_lane(circuit=Circuit.OPEN, probe_at=ahead(-1))
    assert asked(lane, want=0) == Admission(quota=0, rest_at=BEGIN)


def test_a_full_lane_waits_for_room_without_a_token():
    assert asked(a_lane(concurrency=3, in_flight=3)) == Admission(quota=0, rest_at=None, waits=True)
    assert asked(a_lane(concurrency=3, in_flight=1)) == Admission(quota=2, rest_at=BEGIN, counted=True)


def test_an_open_circuit_admits_nothing_before_its_probe_and_then_one():
    lane = a_lane(circuit=Circuit.OPEN, epoch=3, probe_at=ahead(9), trips=1)
    assert asked(lane) == Admission(quota=0, rest_at=ahead(9))
    assert asked(replace(lane, probe_at=BEGIN)) == Admission(quota=1, rest_at=BEGIN, counted=True, probe=True)


def test_a_probe_holds_the_lane_until_its_lease_is_over():
    lane = a_lane(circuit=Circuit.OPEN, epoch=3, probe_at=ahead(-2))
    lane = after_claim(lane, asked(lane), taken=1, left_floor=ahead(-8), now=BEGIN, lease=45.0)
    assert (lane.circuit, lane.probe_at, lane.in_flight, lane.epoch) == (Circuit.HALF_OPEN, ahead(45), 1, 3)
    assert asked(lane) == Admission(quota=0, rest_at=ahead(45), waits=True)


def test_a_probe_in_place_of_a_lost_one_begins_an_epoch():
    lane = a_lane(circuit=Circuit.HALF_OPEN, epoch=3, probe_at=ahead(-1), in_flight=1)
    lane = after_claim(lane, asked(lane), taken=1, left_floor=None, now=BEGIN, lease=45.0)
    assert (lane.epoch, lane.in_flight, lane.probe_at) == (4, 2, ahead(45))


def test_a_probe_keeps_to_the_throttle():
    lane = a_lane(circuit=Circuit.OPEN, probe_at=ahead(-1), throttle_rate=0.01, tat=ahead(70))
    assert asked(lane) == Admission(quota=0, rest_at=ahead(70))


def test_the_smallest_floor_of_all_that_waits_is_kept():
    lane = a_lane(concurrency=2, in_flight=2, waiting_floor=ahead(-30))
    later = after_claim(lane, asked(lane), taken=0, left_floor=ahead(-5), now=BEGIN, lease=45.0)
    earlier = after_claim(lane, asked(lane), taken=0, left_floor=ahead(-60), now=BEGIN, lease=45.0)
    assert (later.waiting_floor, earlier.waiting_floor) == (ahead(-30), ahead(-60))


def test_a_claim_from_a_later_floor_keeps_the_earlier_waiting_floor():
    lane = a_lane(concurrency=2, in_flight=2, waiting_floor=ahead(-30), held_until=ahead(20))
    assert after_claim(lane, asked(lane), taken=0, left_floor=ahead(-5), now=BEGIN, lease=45.0).waiting_floor == ahead(
        -30
    )


lanes = st.builds(
    a_lane,
    status=st.sampled_from([EndpointStatus.ACTIVE, EndpointStatus.ACTIVE, EndpointStatus.PAUSED]),
    circuit=st.sampled_from(Circuit),
    probe_at=st.none() | st.floats(-90, 90).map(ahead),
    window=st.none() | st.integers(1, 128),
    in_flight=st.integers(0, 150),
    concurrency=st.none() | st.integers(1, 100),
    throttle_rate=st.none() | st.floats(0.01, 5000),
    tat=st.none() | st.floats(-5, 5000).map(ahead),
    held_until=st.none() | st.floats(-90, 90).map(ahead),
    pace=st.none() | st.floats(FLOOR, 5000),
)


@given(lane=lanes, want=st.integers(-1, 300), crowded=st.none() | st.integers(-5, 200))
def test_no_bound_is_ever_passed(lane, want, crowded):
    admission = asked(lane, want, crowded)
    assert 0 <= admission.quota <= max(0, want)
    assert admission.rest_at is None or admission.rest_at >= BEGIN
    assert admission.rest_at is not None or admission.waits or lane.status != EndpointStatus.ACTIVE
    assert not admission.waits or lane.in_flight > 0 or lane.circuit == Circuit.HALF_OPEN
    if admission.quota and not admission.probe:
        assert crowded is None or admission.quota <= crowded
        for bound in (lane.concurrency, window_of(lane, POLICY), room_at_pace(lane)):
            assert bound is None or lane.in_flight + admission.quota <= bound
        for rate in (lane.throttle_rate, lane.pace):
            assert rate is None or admission.quota <= burst(rate)
    assert admission.probe <= (lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN))


# ── throttle ──────────────────────────────────────────────────────────────────────────────────────────────────────


def most_in_a_second(starts: list[datetime]) -> int:
    most, first = 0, 0
    for last, at in enumerate(starts):
        while at - starts[first] >= timedelta(seconds=1):
            first += 1
        most = max(most, last - first + 1)
    return most


def paced(rate: float, wants: list[int], gaps: list[float], seconds: float) -> list[datetime]:
    """Return the starts of a lane. Each claim comes at the time that the lane reported plus one of `gaps`, and takes
    one of `wants` or the whole quota, whichever is less."""
    now, tat, starts, turn = BEGIN, None, [], 0
    while now < ahead(seconds):
        quota, next_at = gcra(tat, now, rate)
        taken = min(quota, wants[turn % len(wants)])
        if taken:
            tat = advance(tat, now, rate, taken)
        starts += [now] * taken
        now = (next_at if taken == quota else now) + timedelta(seconds=gaps[turn % len(gaps)])
        turn += 1
    return starts


@settings(max_examples=60)
@given(
    rate=st.floats(0.2, 400.0),
    wants=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    gaps=st.lists(st.floats(0.0, 0.5), min_size=1, max_size=5).filter(lambda gaps: sum(gaps) > 0.01),
)
def test_no_second_ever_sees_more_than_the_rate_and_its_burst(rate, wants, gaps):
    assert most_in_a_second(paced(rate, wants, gaps, seconds=8.0)) <= rate + burst(rate) + 1e-6


@settings(max_examples=40)
@given(rate=st.floats(0.2, 2000.0))
def test_a_lane_that_is_asked_when_it_says_reaches_its_rate(rate):
    seconds = max(5.0, 20.0 / rate)
    assert len(paced(rate, [10**6], [0.0], seconds)) == pytest.approx(rate * seconds, rel=0.06, abs=burst(rate) + 1)


def test_the_burst_is_a_sixteenth_of_the_rate():
    assert [burst(rate) for rate in (0.5, 1.0, 10.0, 40.0, 800.0)] == [1.0, 1.0, 1.0, 2.5, 50.0]
    assert gcra(None, BEGIN, 900.0)[0] == 56


@example(rate=181.58704324265278, tat=ahead(0.094493))  # less than a nanosecond before the next start is allowed
@given(rate=st.floats(0.001, 5000.0), tat=st.none() | st.floats(-100.0, 1e6).map(ahead))
def test_the_next_start_is_really_free_then_and_never_now(rate, tat):
    starts, next_at = gcra(tat, BEGIN, rate)
    assert next_at > BEGIN
    tat = advance(tat, BEGIN, rate, starts)
    assert gcra(tat, BEGIN, rate)[0] == 0 or rate > 1000
    assert gcra(tat, next_at + timedelta(microseconds=2), rate)[0] >= 1


def test_a_start_that_falls_between_two_microseconds_waits_for_the_later_one() -> None:
    """Rounded down, every start would come a little too early, and a receiver would count more than the rate."""
    third = timedelta(microseconds=333_334)
    assert advance(None, BEGIN, 3.0, 1) - BEGIN == third
    starts, next_at = gcra(None, BEGIN, 3.0)
    assert (starts, next_at - BEGIN) == (1, third)


@given(before=st.floats(0.001, 5000.0), after=st.floats(0.001, 5000.0))
def test_a_rate_that_was_raised_or_a_clock_that_fell_does_not_hold_the_lane_for_long(before, after):
    """The lane starts at the time that it reports, after at most two of its intervals and about a second."""
    for tat in (advance(None, BEGIN, before, max(1, int(burst(before)))), ahead(86_400)):
        starts, next_at = gcra(tat, BEGIN, after)
        wait = 0.0 if starts else (next_at - BEGIN).total_seconds()
        assert wait <= 2 * burst(after) / after + 1.1
        assert starts or gcra(tat, next_at + timedelta(microseconds=2), after)[0] >= 1


def test_a_claim_that_began_before_another_gets_no_more_than_is_left():
    """The clock of the claim's transaction is behind the clock of the transaction that the claim waited for."""
    for rate in (0.5, 20.0, 300.0):
        full = advance(None, BEGIN, rate, max(1, int(burst(rate))))
        assert gcra(full, ahead(-0.9), rate)[0] == 0


# ── wake-ups ──────────────────────────────────────────────────────────────────────────────────────────────────────

LIMITED = [
    a_lane(concurrency=1),
    a_lane(throttle_rate=0.1),
    a_lane(pace=0.1),
    a_lane(circuit=Circuit.OPEN, probe_at=ahead(-1), opened_at=ahead(-60)),
    a_lane(circuit=Circuit.HALF_OPEN, probe_at=ahead(-1), opened_at=ahead(-60)),
    a_lane(circuit=Circuit.RECOVERING, window=1, window_at=ahead(-1), opened_at=ahead(-60)),
]


@pytest.mark.parametrize("lane", LIMITED)
def test_a_claim_whose_candidates_are_all_locked_leaves_the_lane_awake(lane):
    world = World(lane=lane)
    world.add(1)
    assert world.claim(locked=1) == []
    world.check()
    assert len(world.claim()) == 1


@pytest.mark.parametrize("lane", LIMITED)
def test_a_limited_lane_wakes_for_a_retry_that_is_not_due_yet(lane):
    world = World(lane=lane)
    world.add(1, due_in=30.0)
    world.tokens = [Token(BEGIN, ahead(30.0))]
    assert world.claim() == []
    world.check()
    world.advance(30.0)
    assert len(world.claim()) == 1


# ── one lane, several workers, any order ──────────────────────────────────────────────────────────────────────────


class LaneMachine(RuleBasedStateMachine):
    """Workers claim, finish, stall and die in any order, and the endpoint succeeds or fails at random."""

    world: World

    @initialize(
        concurrency=st.none() | st.integers(1, 6),
        rate=st.none() | st.sampled_from([0.5, 7.0, 60.0]),
        seed=st.integers(0, 999),
        count=st.integers(0, 40),
    )
    def begin(self, concurrency: int | None, rate: float | None, seed: int, count: int) -> None:
        lane = a_lane(concurrency=concurrency, throttle_rate=rate)
        policy = CircuitPolicy(threshold=3, spread=0.5, cooldown=20.0, cooldown_cap=90.0, recovery_done=16)
        self.world = World(lane=lane, policy=policy, chance=random.Random(seed))
        self.world.add(count)
        self.epoch = 0

    def some(self, data: st.DataObject) -> list[Job]:
        jobs = self.world.jobs
        return data.draw(st.lists(st.sampled_from(jobs), min_size=1, max_size=8, unique_by=id))

    @rule(count=st.integers(1, 20), due_in=st.sampled_from([0.0, 0.0, 0.0, 3.0, 40.0]))
    def ingest(self, count: int, due_in: float) -> None:
        self.world.add(count, due_in)

    @rule(
        want=st.integers(0, 30),
        crowded=st.none() | st.integers(-1, 10),
        locked=st.sampled_from([0, 0, 0, 1, 5]),
    )
    def claim(self, want: int, crowded: int | None, locked: int) -> None:
        before = self.world.lane
        taken = self.world.claim(want, crowded, locked)
        assert len(taken) <= want
        if before.circuit == Circuit.OPEN and taken:
            assert before.probe_at is not None
            assert before.probe_at <= self.world.now
            assert [job.probe for job in taken] == [True]

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.05, 0.3, 1.1, 8.0, 30.0, 100.0]))
    def wait(self, seconds: float) -> None:
        """Wait. A live worker holds no job past its lease: it cancels and releases late requests."""
        self.world.advance(seconds)
        if late := [job for job in self.world.jobs if job.lease_until <= self.world.now]:
            self.world.finish(late, Health.NONE)

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data(), health=st.sampled_from(Health), retry_in=st.sampled_from([0.0, 0.7, 25.0]))
    def finish(self, data: st.DataObject, health: Health, retry_in: float) -> None:
        before, jobs = self.world.lane, self.some(data)
        self.world.finish(jobs, health, retry_in=None if health == Health.GOOD else retry_in)
        if all(job.epoch != before.epoch for job in jobs):
            assert circuit_of(self.world.lane) == circuit_of(before)

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data(), hold=st.floats(0.0, 50.0))
    def put_off(self, data: st.DataObject, hold: float) -> None:
        self.world.finish(self.some(data), Health.BAD, retry_in=hold, hold=hold)

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data(), hold=st.none() | st.floats(0.0, 50.0))
    def slow_down(self, data: st.DataObject, hold: float | None) -> None:
        jobs, before = self.some(data), self.world.lane
        self.world.finish(jobs, Health.BAD, retry_in=hold or 0.3, hold=hold, slow_down=True)
        assert before.pace is None or self.world.lane.pace is not None

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        for job in self.some(data):
            self.world.lose(job)

    @rule()
    def sweep(self) -> None:
        self.world.sweep()

    @rule(status=st.sampled_from([EndpointStatus.PAUSED, EndpointStatus.ACTIVE]))
    def pause_or_resume(self, status: EndpointStatus) -> None:
        if status != self.world.lane.status:
            self.world.set_status(status)

    @invariant()
    def holds(self) -> None:
        self.world.check()
        assert self.world.lane.epoch >= self.epoch
        self.epoch = self.world.lane.epoch

    def teardown(self) -> None:
        """After any history, the backlog drains once the endpoint is healthy and the workers are alive."""
        if not hasattr(self, "world"):
            return
        for job in list(self.world.jobs):
            self.world.lose(job)
        self.world.set_status(EndpointStatus.ACTIVE)
        slowest = self.world.lane.throttle_rate or 10.0
        paced = 0.0 if self.world.lane.pace is None else QUIET.total_seconds()  # the pace is forgotten by then
        self.world.drain(longest=300.0 + paced + (self.world.made + 2) / min(10.0, slowest))
        check_gentle(self.world)


def circuit_of(lane: Lane) -> tuple[object, ...]:
    return (lane.circuit, lane.epoch, lane.failures, lane.failing_since, lane.probe_at, lane.window, lane.trips)


def check_gentle(world: World) -> None:
    """No second of a recovery has more starts than the rate and burst of its largest window."""
    recovering = [job for job in world.starts if job.circuit == Circuit.RECOVERING]
    for first in recovering:
        end = first.started_at + timedelta(seconds=1)
        within = [f for f in recovering if f.epoch == first.epoch and first.started_at <= f.started_at < end]
        rate = max(job.rate or 0.0 for job in within)
        assert len(within) <= rate + burst(rate) + 1e-6


TestLaneMachine = LaneMachine.TestCase
TestLaneMachine.settings = settings(max_examples=120, stateful_step_count=40)


# ── for display ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, BEGIN),
        ({"status": EndpointStatus.PAUSED}, None),
        ({"status": EndpointStatus.DISABLED}, None),
        ({"held_until": ahead(40)}, ahead(40)),
        ({"circuit": Circuit.OPEN, "probe_at": ahead(50)}, ahead(50)),
        ({"circuit": Circuit.OPEN, "probe_at": ahead(-1)}, BEGIN),
        ({"concurrency": 3, "in_flight": 3}, None),
        ({"concurrency": 3, "in_flight": 2}, BEGIN),
        ({"throttle_rate": 0.1, "tat": ahead(10)}, ahead(10)),
        ({"pace": 0.1, "tat": ahead(10)}, ahead(10)),
    ],
)
def test_when_the_next_delivery_may_start(fields: dict[str, object], wanted: datetime | None) -> None:
    assert next_start(a_lane(**fields), now=BEGIN, policy=POLICY) == wanted
