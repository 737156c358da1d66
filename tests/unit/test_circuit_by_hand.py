"""An operator opens or closes a circuit, from any state and with any requests in flight."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hookline.model.lanes import Lane, LaneEventKind
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, Health
from hookline.rules.lane.admission import admit
from hookline.rules.lane.circuit import Fold, LaneOutcome, close_by_hand, fold, open_by_hand
from tests.support.lanes import BEGIN, Token, World

POLICY = CircuitPolicy()
K = LaneEventKind

CLOSED = Lane(endpoint_no=29, app_no=7, failures=3, failing_since=BEGIN - timedelta(days=6))
OPEN = replace(
    CLOSED,
    circuit=Circuit.OPEN,
    epoch=4,
    trips=6,
    opened_at=BEGIN - timedelta(hours=2),
    probe_at=BEGIN + timedelta(hours=1),
)
HALF_OPEN = replace(OPEN, circuit=Circuit.HALF_OPEN, epoch=5, in_flight=1, probe_at=BEGIN + timedelta(seconds=45))
RECOVERING = replace(OPEN, circuit=Circuit.RECOVERING, epoch=6, probe_at=None, window=16, window_at=BEGIN)
ALL = pytest.mark.parametrize("lane", [CLOSED, OPEN, HALF_OPEN, RECOVERING], ids=lambda lane: lane.circuit.name)


def ahead(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def opened(lane: Lane, until: datetime | None = None, at: float = 0.0) -> Fold:
    return open_by_hand(lane, now=ahead(at), until=until, cause="they deploy", policy=POLICY, chance=random.Random(5))


def closed(lane: Lane, at: float = 0.0) -> Fold:
    return close_by_hand(lane, now=ahead(at), cause="they are back", policy=POLICY, chance=random.Random(5))


# ── open ──


@ALL
def test_nothing_is_admitted_until_the_end_and_then_one_probe(lane: Lane) -> None:
    result = opened(lane, until=ahead(7200))
    assert [(event.kind, event.cause, event.at) for event in result.events] == [
        (K.CIRCUIT_OPENED, "they deploy", BEGIN)
    ]
    after = result.lane
    assert (after.circuit, after.probe_at, after.window) == (Circuit.OPEN, ahead(7200), None)
    before = admit(after, now=ahead(7199), want=50, room=None, policy=POLICY)
    assert (before.quota, before.rest_at) == (0, ahead(7200))
    then = admit(after, now=ahead(7200), want=50, room=None, policy=POLICY)
    assert (then.quota, then.probe) == (1, True)


@ALL
def test_requests_in_flight_do_not_close_it(lane: Lane) -> None:
    after = opened(lane, until=ahead(7200)).lane
    news = LaneOutcome(health=Health.GOOD, epoch=lane.epoch, counted=bool(lane.in_flight), probe=True)
    folded = fold(after, [news], now=ahead(3), policy=POLICY, chance=random.Random(1))
    assert (folded.lane.circuit, folded.lane.probe_at, folded.lane.in_flight) == (Circuit.OPEN, ahead(7200), 0)


def test_a_probe_that_is_out_stays_the_only_one() -> None:
    assert opened(HALF_OPEN, until=ahead(1)).lane.probe_at == HALF_OPEN.probe_at
    assert opened(OPEN, until=ahead(1)).lane.probe_at == ahead(1)


def test_without_an_end_it_waits_as_after_a_failure() -> None:
    probe_at = opened(CLOSED).lane.probe_at
    assert probe_at is not None
    assert ahead(48) <= probe_at <= ahead(72)


def test_the_time_without_attempts_does_not_count_as_failing() -> None:
    """Otherwise a lane that failed once, long ago, would be disabled by the next sweep because somebody opened its
    circuit."""
    after = opened(CLOSED, until=ahead(7200)).lane
    assert (after.failures, after.failing_since) == (0, None)


def test_opening_by_hand_does_not_lengthen_the_cooldown() -> None:
    lane = CLOSED
    for _ in range(9):
        lane = opened(lane, until=ahead(5)).lane
    assert (lane.trips, lane.opened_at) == (1, BEGIN)
    assert opened(OPEN).lane.trips == OPEN.trips


# ── close ──


@pytest.mark.parametrize("lane", [OPEN, HALF_OPEN], ids=["open", "half-open"])
def test_closing_by_hand_equals_a_good_probe(lane: Lane) -> None:
    result = closed(lane)
    after = result.lane
    assert [(event.kind, event.cause) for event in result.events] == [(K.CIRCUIT_RECOVERING, "they are back")]
    assert (after.circuit, after.window, after.window_at) == (Circuit.RECOVERING, POLICY.recovery_window, BEGIN)
    assert (after.epoch, after.failures, after.failing_since, after.probe_at) == (lane.epoch + 1, 0, None, None)
    by_probe = fold(
        replace(lane, circuit=Circuit.HALF_OPEN),
        [LaneOutcome(health=Health.GOOD, epoch=lane.epoch, probe=True)],
        now=BEGIN,
        policy=POLICY,
        chance=random.Random(1),
    )
    assert after == by_probe.lane


@pytest.mark.parametrize("lane", [CLOSED, RECOVERING], ids=["closed", "recovering"])
def test_closing_a_circuit_that_is_not_open_changes_nothing(lane: Lane) -> None:
    assert closed(lane) == Fold(lane=lane)


def test_a_hold_and_a_pace_stay() -> None:
    lane = replace(OPEN, held_until=ahead(900), pace=3.0, pace_at=BEGIN, pace_top=8.0)
    after = closed(lane).lane
    assert (after.held_until, after.pace, after.pace_top) == (ahead(900), 3.0, 8.0)


MOVES = st.sampled_from(["open", "close", "good", "bad", "lose", "send", "a moment", "a while"])


@given(st.lists(MOVES, max_size=40))
def test_after_any_operator_actions_every_lane_wakes_and_sends_its_backlog(moves: list[str]) -> None:
    world = World(Lane(endpoint_no=29, app_no=7))
    world.add(5)
    for move in moves:
        steer(world, move)
        world.check()
    world.drain(longest=3 * 3600)


def steer(world: World, move: str) -> None:
    match move:
        case "open" | "close":
            act = opened if move == "open" else closed
            world.lane = act(world.lane, at=(world.now - BEGIN).total_seconds()).lane
            if world.waiting:  # the store inserts such a token too
                world.tokens.append(Token(world.now, min(world.waiting.values())))
        case "good" | "bad":
            world.claim(3)
            world.finish(list(world.jobs), Health.GOOD if move == "good" else Health.BAD)
        case "lose":
            for job in world.claim(3):
                world.lose(job)
        case "send":
            world.add(2)
        case "a moment":
            world.advance(0.7)
        case "a while":
            world.advance(80)
            world.sweep()
