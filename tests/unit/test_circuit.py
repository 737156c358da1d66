"""The circuit opens on an outage and not on a burst, probes with one request, recovers slowly, and ignores old
outcomes."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hookline.model.lanes import Lane, LaneEventKind
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, EndpointStatus, Health
from hookline.rules.lane.admission import admit, burst, effective_rate
from hookline.rules.lane.circuit import Fold, LaneOutcome, cooldown, fold, reset
from hookline.rules.lane.pace import FLOOR
from tests.support.lanes import BEGIN, World

POLICY = CircuitPolicy()
K = LaneEventKind


def ahead(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def a_lane(**fields: object) -> Lane:
    return replace(Lane(endpoint_no=23, app_no=5), **fields)


def an_outcome(health: Health, epoch: int = 0, **fields: object) -> LaneOutcome:
    return replace(LaneOutcome(health=health, epoch=epoch, cause="status 502"), **fields)


def folded(lane: Lane, *outcomes: LaneOutcome, at: float = 0.0, policy: CircuitPolicy = POLICY, seed: int = 3) -> Fold:
    return fold(lane, outcomes, now=ahead(at), policy=policy, chance=random.Random(seed))


def failed(lane: Lane, *instants: float) -> Lane:
    for at in instants:
        lane = folded(lane, an_outcome(Health.BAD, lane.epoch), at=at).lane
    return lane


# ── opening ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_five_failures_over_a_second_open_it():
    result = folded(failed(a_lane(), 0.0, 0.2, 0.5, 0.7), an_outcome(Health.BAD), at=1.0)
    lane = result.lane
    assert (lane.circuit, lane.epoch, lane.trips, lane.opened_at) == (Circuit.OPEN, 1, 1, ahead(1.0))
    assert lane.probe_at is not None
    assert ahead(1 + 48) <= lane.probe_at <= ahead(1 + 72)
    assert [(event.kind, event.cause, event.at) for event in result.events] == [
        (K.CIRCUIT_OPENED, "status 502", ahead(1.0))
    ]


def test_a_burst_of_resets_in_one_instant_does_not_open_it():
    result = folded(a_lane(), *[an_outcome(Health.BAD)] * 500)
    assert (result.lane.circuit, result.lane.failures, result.events) == (Circuit.CLOSED, 500, ())
    assert folded(result.lane, an_outcome(Health.GOOD), at=1.5).lane == a_lane()


def test_four_failures_however_far_apart_do_not_open_it():
    assert failed(a_lane(), 0, 60, 600, 6000).circuit == Circuit.CLOSED


def test_a_success_in_between_resets_the_count():
    lane = folded(failed(a_lane(), 0, 1, 2, 3), an_outcome(Health.GOOD), at=3.5).lane
    assert (lane.failures, lane.failing_since) == (0, None)
    assert failed(lane, 4, 5, 6, 7).circuit == Circuit.CLOSED
    assert failed(lane, 4, 5, 6, 7, 8).circuit == Circuit.OPEN


@given(st.lists(st.tuples(st.sampled_from(Health), st.sampled_from([0.0, 0.1, 0.6, 2.0])), max_size=40))
def test_it_opens_exactly_when_enough_failures_in_a_row_lie_far_enough_apart(steps):
    lane, at, run = a_lane(), 0.0, []
    for health, gap in steps:
        at += gap
        lane = folded(lane, an_outcome(health, lane.epoch), at=at).lane
        if health != Health.NONE:
            run = [*run, at] if health == Health.BAD else []
        opens = len(run) >= POLICY.threshold and ahead(run[-1]) - ahead(run[0]) >= timedelta(seconds=POLICY.spread)
        assert (lane.circuit == Circuit.OPEN) == opens
        if opens:
            return


def test_the_order_of_completion_within_a_batch_decides():
    bad, good = [an_outcome(Health.BAD)] * 3, [an_outcome(Health.GOOD)]
    lane = failed(a_lane(), 0.0, 0.1)
    assert folded(lane, *bad, *good, at=2.0).lane.circuit == Circuit.OPEN
    assert folded(lane, *good, *bad, at=2.0).lane.circuit == Circuit.CLOSED


# ── probes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def half_open(**fields: object) -> Lane:
    begun = {"circuit": Circuit.HALF_OPEN, "epoch": 4, "probe_at": ahead(45), "in_flight": 1, "trips": 2}
    return a_lane(**(begun | {"opened_at": ahead(-200), "failures": 6, "failing_since": ahead(-201)} | fields))


def test_a_good_probe_begins_the_recovery():
    result = folded(half_open(), an_outcome(Health.GOOD, 4, counted=True, probe=True), at=7)
    lane = result.lane
    assert (lane.circuit, lane.epoch, lane.window, lane.window_at) == (Circuit.RECOVERING, 5, 2, ahead(7))
    assert (lane.failures, lane.failing_since, lane.probe_at, lane.in_flight) == (0, None, None, 0)
    assert [event.kind for event in result.events] == [K.CIRCUIT_RECOVERING]


def test_a_failed_probe_opens_it_for_longer():
    result = folded(half_open(), an_outcome(Health.BAD, 4, counted=True, probe=True), at=7)
    lane = result.lane
    assert (lane.circuit, lane.epoch, lane.trips, lane.failures) == (Circuit.OPEN, 5, 3, 7)
    assert (lane.opened_at, lane.failing_since) == (ahead(-200), ahead(-201))
    assert lane.probe_at is not None
    assert ahead(7 + 192) <= lane.probe_at <= ahead(7 + 288)
    assert [event.kind for event in result.events] == [K.CIRCUIT_PROBE_FAILED]


def test_a_probe_without_a_result_allows_the_next_at_once():
    result = folded(half_open(waiting_floor=ahead(-9)), an_outcome(Health.NONE, 4, counted=True, probe=True), at=7)
    assert (result.lane.circuit, result.lane.epoch, result.lane.probe_at) == (Circuit.OPEN, 5, ahead(7))
    assert (result.wake_at, result.wake_floor) == (ahead(7), ahead(-9))
    assert result.events == ()


def test_the_cooldown_doubles_with_jitter_and_never_passes_its_cap():
    for trips, middle in [(0, 60.0), (1, 120.0), (4, 960.0)]:
        drawn = [cooldown(trips, POLICY, random.Random(seed)) for seed in range(300)]
        assert 0.8 * middle <= min(drawn) < 0.85 * middle
        assert 1.15 * middle < max(drawn) <= 1.2 * middle
    for trips in (6, 30, 10**9):
        drawn = [cooldown(trips, POLICY, random.Random(seed)) for seed in range(300)]
        assert 2880 <= min(drawn) < 2950
        assert 3550 < max(drawn) <= 3600


# ── epochs ────────────────────────────────────────────────────────────────────────────────────────────────────────

circuits = st.sampled_from(
    [
        a_lane(epoch=4),
        a_lane(epoch=4, failures=4, failing_since=ahead(-8)),
        a_lane(epoch=4, circuit=Circuit.OPEN, probe_at=ahead(31), trips=1, opened_at=ahead(-29)),
        half_open(),
        a_lane(epoch=4, circuit=Circuit.RECOVERING, window=8, window_at=ahead(-3), in_flight=5, opened_at=ahead(-99)),
    ]
)


@given(
    lane=circuits,
    old=st.lists(st.tuples(st.sampled_from(Health), st.sampled_from([-1, 0, 3, 5]), st.booleans()), max_size=12),
)
def test_outcomes_of_another_epoch_do_not_change_the_circuit(lane, old):
    outcomes = [an_outcome(health, epoch, probe=probe) for health, epoch, probe in old]
    assert folded(lane, *outcomes, at=2.0) == Fold(lane=lane)


@given(lane=circuits, old=st.lists(st.sampled_from(Health), min_size=1, max_size=12))
def test_outcomes_of_another_epoch_still_free_their_slots(lane, old):
    lane = replace(lane, in_flight=20, waiting_floor=ahead(-6))
    result = folded(lane, *[an_outcome(health, 3, counted=True) for health in old], at=2.0)
    assert result.lane.in_flight == 20 - len(old)
    if lane.circuit == Circuit.HALF_OPEN:  # the end of the probe will wake the lane
        assert (result.lane.waiting_floor, result.wake_at) == (ahead(-6), None)
        return
    assert result.lane.waiting_floor is None
    assert result.wake_floor == ahead(-6)
    assert result.wake_at == max(ahead(2.0), lane.probe_at or ahead(2.0))


def test_in_flight_is_never_negative():
    assert folded(a_lane(in_flight=1), *[an_outcome(Health.NONE, counted=True)] * 3).lane.in_flight == 0


# ── recovery ──────────────────────────────────────────────────────────────────────────────────────────────────────


def recovering(**fields: object) -> Lane:
    begun = {"circuit": Circuit.RECOVERING, "epoch": 9, "window": 2, "window_at": BEGIN, "opened_at": ahead(-70)}
    return a_lane(**(begun | {"trips": 1} | fields))


def test_the_window_doubles_once_a_step_until_the_circuit_is_closed():
    lane, windows, kinds = recovering(), [], []
    for quarter in range(1, 100):
        result = folded(lane, *[an_outcome(Health.GOOD, lane.epoch)] * 7, at=quarter / 4)
        lane = result.lane
        windows.append(lane.window)
        kinds += [(quarter, event.kind) for event in result.events]
    assert windows[8::10] == [2, 4, 8, 16, 32, 64, 128, None, None, None]
    assert kinds == [(70, K.CIRCUIT_CLOSED)]
    assert lane == a_lane(epoch=10)


def test_failures_in_a_row_halve_the_window_and_then_open_it_again():
    lane = recovering(window=64)
    windows = []
    for at in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        lane = failed(lane, at)
        windows.append(lane.window)
    assert windows == [64, 64, 32, 16, 8, 4]
    lane = failed(lane, 1.2)
    assert (lane.circuit, lane.epoch, lane.trips, lane.window) == (Circuit.OPEN, 10, 2, None)


@pytest.mark.parametrize("seed", range(5))
def test_an_endpoint_that_fails_one_in_twenty_still_gets_out_of_recovery(seed):
    chance, lane, at = random.Random(seed), recovering(), 0.0
    while lane.circuit == Circuit.RECOVERING and at < 60:
        at += 0.005
        lane = folded(lane, an_outcome(Health.BAD if chance.random() < 0.05 else Health.GOOD, lane.epoch), at=at).lane
    assert lane.circuit == Circuit.CLOSED


@settings(max_examples=25)
@given(seed=st.integers(0, 2**20), latency=st.sampled_from([0.004, 0.08, 0.6]), want=st.integers(1, 80))
def test_recovery_is_gentle_in_every_second_and_ends_closed(seed, latency, want):
    world = World(lane=recovering(), chance=random.Random(seed))
    world.add(500)
    while world.lane.circuit == Circuit.RECOVERING and world.waiting:
        world.claim(want)
        world.advance(latency if world.jobs else 0.01)
        world.finish(list(world.jobs), Health.GOOD)
        world.check()
    starts = [job for job in world.starts if job.circuit == Circuit.RECOVERING]
    for first in starts[::7]:
        within = [f for f in starts if timedelta(0) <= f.started_at - first.started_at < timedelta(seconds=1)]
        rate = max(job.rate or 0.0 for job in within)
        assert len(within) <= rate + burst(rate)
    assert sum(job.started_at < ahead(1) for job in starts) <= 22  # 2 in flight, 20 a second, a burst of 1.25
    for _ in range(10):
        world.drain(longest=60)
        world.advance(world.policy.recovery_step)
        world.add(3)
    assert world.lane.circuit == Circuit.CLOSED


# ── holds and the end of an endpoint ──────────────────────────────────────────────────────────────────────────────


def test_the_latest_hold_wins_and_is_reported_once():
    held = [an_outcome(Health.NONE, hold_until=ahead(seconds)) for seconds in (30, 31, 29, 33)]
    result = folded(a_lane(), *held)
    assert result.lane.held_until == ahead(33)
    assert [event.kind for event in result.events] == [K.LANE_HELD]
    again = folded(result.lane, an_outcome(Health.NONE, hold_until=ahead(70)), at=40)
    assert (again.lane.held_until, len(again.events)) == (ahead(70), 1)


def test_short_holds_are_reported_only_now_and_then():
    """An endpoint that answers each request with 429 and "one second" would otherwise fill its timeline and the log."""
    lane, events = a_lane(), []
    for at in range(0, 300, 2):
        result = folded(lane, an_outcome(Health.NONE, hold_until=ahead(at + 1)), at=at)
        lane, events = result.lane, [*events, *result.events]
        assert lane.held_until == ahead(at + 1)
    assert [(event.kind, event.at) for event in events] == [(K.LANE_HELD, BEGIN)]
    later = folded(lane, an_outcome(Health.NONE, hold_until=ahead(401)), at=400)
    assert [event.kind for event in later.events] == [K.LANE_HELD]


def test_a_long_hold_after_a_short_one_is_reported():
    lane = a_lane(held_until=ahead(-10))
    for at in (0, 0.5):  # the second hold comes while the lane is held by the first
        lane = folded(lane, an_outcome(Health.NONE, hold_until=ahead(at + 1)), at=at).lane
    long = folded(lane, an_outcome(Health.NONE, hold_until=ahead(60)), at=0.7)
    assert [event.kind for event in long.events] == [K.LANE_HELD]
    # the request of this outcome was already in flight when the first hold began
    longer = folded(long.lane, an_outcome(Health.NONE, hold_until=ahead(62)), at=57)
    assert (longer.lane.held_until, longer.events) == (ahead(62), ())


def test_an_expired_hold_has_no_effect():
    assert folded(a_lane(), an_outcome(Health.BAD, hold_until=ahead(1)), at=2.0).lane.held_until is None


def test_a_held_lane_wakes_when_the_hold_ends():
    lane = a_lane(concurrency=3, in_flight=3, waiting_floor=ahead(-4))
    result = folded(lane, an_outcome(Health.BAD, counted=True, hold_until=ahead(30)))
    assert (result.wake_at, result.wake_floor) == (ahead(30), ahead(-4))


def test_a_gone_endpoint_is_disabled_once_even_by_an_old_outcome():
    result = folded(a_lane(epoch=4), *[an_outcome(Health.GOOD, 2, gone=True)] * 3)
    assert result.lane.status == EndpointStatus.DISABLED
    assert [event.kind for event in result.events] == [K.ENDPOINT_DISABLED]
    assert folded(a_lane(status=EndpointStatus.PAUSED), an_outcome(Health.GOOD, gone=True)).lane.status == (
        EndpointStatus.PAUSED
    )


# ── slow-down answers ─────────────────────────────────────────────────────────────────────────────────────────────


def a_slow_down(epoch: int = 0, **fields: object) -> LaneOutcome:
    return replace(an_outcome(Health.BAD, epoch, slow_down=True), cause="status 429", **fields)


@pytest.mark.parametrize("lane", [a_lane(), recovering(window=64), a_lane(failures=2, failing_since=ahead(-3))])
def test_slow_down_answers_slow_the_lane_and_are_no_failures(lane):
    result = folded(lane, *[a_slow_down(lane.epoch)] * 50)
    assert result.lane.pace == POLICY.recovery_window * POLICY.recovery_rate
    assert (result.lane.slowed_at, result.lane.circuit) == (BEGIN, lane.circuit)
    assert (result.lane.failures, result.lane.failing_since, result.lane.window) == (
        lane.failures,
        lane.failing_since,
        lane.window,
    )
    assert [(event.kind, event.cause) for event in result.events] == [(K.LANE_SLOWED, "status 429")]
    again = folded(result.lane, a_slow_down(lane.epoch), at=9.0)
    assert (again.lane.pace, again.events) == (result.lane.pace / 2, ())


def test_at_the_lowest_pace_a_slow_down_answer_is_a_failure():
    lane = a_lane(pace=FLOOR, pace_at=ahead(-90), pace_top=1.0, slowed_at=ahead(-90))
    for at in (0, 60, 120, 180):
        lane = folded(lane, a_slow_down(), at=at).lane
    assert (lane.failures, lane.failing_since, lane.circuit) == (4, BEGIN, Circuit.CLOSED)
    assert folded(lane, a_slow_down(), at=240).lane.circuit == Circuit.OPEN


def test_a_probe_that_is_refused_has_failed():
    result = folded(half_open(), a_slow_down(4, counted=True, probe=True), at=7)
    assert (result.lane.circuit, result.lane.trips, result.lane.pace) == (Circuit.OPEN, 3, None)
    assert [event.kind for event in result.events] == [K.CIRCUIT_PROBE_FAILED]


def test_a_slow_down_answer_of_another_epoch_is_ignored():
    assert folded(a_lane(epoch=4), a_slow_down(3)).lane.pace is None


def test_a_slow_down_answer_holds_the_lane_and_slows_it_later():
    lane = folded(a_lane(), a_slow_down(hold_until=ahead(30))).lane
    assert (lane.held_until, lane.pace) == (ahead(30), 20.0)
    assert admit(lane, now=ahead(29), want=50, room=None, policy=POLICY).quota == 0
    assert admit(lane, now=ahead(30), want=50, room=None, policy=POLICY).quota == int(burst(20.0))


def test_the_pace_outlives_an_outage_and_is_no_faster_than_the_recovery():
    lane = failed(a_lane(pace=0.5, pace_at=BEGIN, pace_top=1.0, slowed_at=BEGIN, tat=ahead(2)), 0, 1, 2, 3, 4)
    assert (lane.circuit, lane.pace, lane.tat) == (Circuit.OPEN, 0.5, ahead(2))
    back = folded(replace(lane, circuit=Circuit.HALF_OPEN), an_outcome(Health.GOOD, lane.epoch, claimed_at=ahead(-1)))
    assert (back.lane.circuit, effective_rate(back.lane, POLICY)) == (Circuit.RECOVERING, 0.5)


def test_the_end_of_a_pace_is_reported_and_wakes_the_lane():
    slow = a_lane(pace=0.02, pace_at=ahead(-700), pace_top=0.01, slowed_at=ahead(-700), in_flight=1)
    result = folded(replace(slow, waiting_floor=ahead(-5)), an_outcome(Health.GOOD, counted=True))
    assert result.lane == a_lane()
    assert [event.kind for event in result.events] == [K.LANE_AT_SPEED]
    assert (result.wake_at, result.wake_floor) == (BEGIN, ahead(-5))


# ── any sequence ──────────────────────────────────────────────────────────────────────────────────────────────────

steps = st.lists(
    st.tuples(
        st.sampled_from(["claim", "good", "bad", "bad", "bad", "none", "die", "sweep"]),
        st.sampled_from([0.0, 0.2, 0.9, 5.0, 30.0, 80.0]),
        st.integers(1, 9),
    ),
    min_size=5,
    max_size=60,
)


@given(steps=steps, concurrency=st.none() | st.integers(1, 5), seed=st.integers(0, 2**20))
def test_after_any_events_the_invariants_hold_and_the_backlog_drains(steps, concurrency, seed):
    policy = CircuitPolicy(threshold=3, cooldown=25.0, recovery_done=8)
    world = World(lane=a_lane(concurrency=concurrency), policy=policy, chance=random.Random(seed))
    world.add(60)
    for action, gap, count in steps:
        world.advance(gap)
        act(world, action, count)
        world.check()
    for job in list(world.jobs):
        world.lose(job)
    world.drain(longest=policy.cooldown_cap * 1.5)


def act(world: World, action: str, count: int) -> None:
    before, some = world.lane, [job for job in world.jobs if job.lease_until > world.now][:count]
    match action:
        case "claim":
            taken = world.claim(count)
            assert before.circuit != Circuit.OPEN or not taken or before.probe_at <= world.now
        case "die":
            for job in some:
                world.lose(job)
        case "sweep":
            world.sweep()
        case _:
            world.finish(some, Health[action.upper()])
            assert world.lane.epoch >= before.epoch
            assert world.lane.window is None or before.window is None or world.lane.window <= before.window * 2


@given(lane=circuits, now=st.floats(0.0, 100.0))
def test_an_open_circuit_admits_nothing_before_its_probe(lane, now):
    admission = admit(lane, now=ahead(now), want=50, room=None, policy=POLICY)
    if lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN):
        assert admission.quota == (1 if lane.probe_at <= ahead(now) else 0)


# ── reset by an operator ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_reset_clears_everything_but_the_lanes_own_limits() -> None:
    failing = a_lane(
        status=EndpointStatus.PAUSED,
        revision=9,
        circuit=Circuit.OPEN,
        epoch=4,
        failures=8,
        failing_since=ahead(-900),
        trips=3,
        opened_at=ahead(-800),
        probe_at=ahead(60),
        window=4,
        window_at=ahead(-1),
        in_flight=2,
        waiting_floor=ahead(-5),
        throttle_rate=7.5,
        concurrency=11,
        tat=ahead(1),
        held_until=ahead(99),
        pace=0.4,
        pace_at=ahead(-3),
        pace_top=0.7,
        slowed_at=ahead(-4),
    )
    after = reset(failing, now=ahead(3), cause="well again")
    assert after.lane == a_lane(
        status=EndpointStatus.PAUSED,
        revision=9,
        epoch=5,
        in_flight=2,
        waiting_floor=ahead(-5),
        throttle_rate=7.5,
        concurrency=11,
        tat=ahead(1),
    )
    (event,) = after.events
    assert (event.kind, event.at, event.cause, event.endpoint_no) == (K.CIRCUIT_RESET, ahead(3), "well again", 23)


def test_the_pace_of_a_recovery_is_forgotten_with_it() -> None:
    recovering = a_lane(circuit=Circuit.RECOVERING, window=2, window_at=ahead(-1), tat=ahead(5))
    assert reset(recovering, now=ahead(0), cause="").lane.tat is None


@pytest.mark.parametrize(
    "fields",
    [
        {"circuit": Circuit.HALF_OPEN, "probe_at": ahead(60)},
        {"failures": 1, "failing_since": ahead(-1)},
        {"held_until": ahead(60)},
        {"pace": 0.4, "pace_at": ahead(-3), "pace_top": 0.7, "slowed_at": ahead(-4)},
        {"circuit": Circuit.RECOVERING, "window": 2},
    ],
)
def test_a_reset_clears_every_reason_that_holds_a_lane(fields: dict[str, object]) -> None:
    after = reset(a_lane(**fields), now=ahead(0), cause="")
    assert after.lane == a_lane(epoch=1)
    assert len(after.events) == 1


@pytest.mark.parametrize("fields", [{}, {"tat": ahead(5)}, {"throttle_rate": 3.0, "tat": ahead(5), "in_flight": 2}])
def test_a_healthy_lane_has_nothing_to_reset(fields: dict[str, object]) -> None:
    assert reset(a_lane(**fields), now=ahead(0), cause="") == Fold(lane=a_lane(**fields))


def test_an_outcome_from_before_a_reset_is_ignored() -> None:
    opened = a_lane(circuit=Circuit.HALF_OPEN, epoch=6, failures=5, probe_at=ahead(60), in_flight=1)
    clean = reset(opened, now=ahead(0), cause="").lane
    late = folded(clean, an_outcome(Health.BAD, epoch=6, counted=True, probe=True))
    assert late.lane == replace(clean, in_flight=0)


def test_a_retry_after_from_before_a_reset_still_holds_the_lane() -> None:
    clean = reset(a_lane(failures=2, epoch=6), now=ahead(0), cause="").lane
    late = folded(clean, a_slow_down(epoch=6, hold_until=ahead(30)), at=1.0)
    assert late.lane == replace(clean, held_until=ahead(30)), "held, but not slowed down"


def test_a_success_that_widens_the_lane_wakes_waiting_deliveries():
    """Two counted requests hang. Another one, claimed before the lane was narrowed, succeeds."""
    narrow = a_lane(failures=5, failing_since=BEGIN, in_flight=2, waiting_floor=BEGIN)
    result = folded(narrow, an_outcome(Health.GOOD), at=2.0)
    assert (result.lane.failures, result.lane.waiting_floor) == (0, None)
    assert (result.wake_at, result.wake_floor) == (ahead(2.0), BEGIN)
