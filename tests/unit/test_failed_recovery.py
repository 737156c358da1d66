"""An endpoint fails again during its recovery. The next recovery stays below the rate at which it failed."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from hookline.model.lanes import Lane, LaneEventKind
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, Health
from hookline.rules.lane.admission import effective_rate
from hookline.rules.lane.circuit import Fold, LaneOutcome, fold
from hookline.rules.lane.pace import LOADED, QUIET, STAY
from tests.support.lanes import BEGIN

POLICY = CircuitPolicy(recovery_window=2, recovery_rate=10.0, recovery_step=1.0, recovery_done=128)
FIRST = 20.0  # starts per second at the beginning of a recovery


def ahead(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def recorded(lane: Lane, health: Health, at: float, **fields: object) -> Fold:
    outcome = replace(LaneOutcome(health=health, epoch=lane.epoch, cause="status 502"), **fields)
    return fold(lane, [outcome], now=ahead(at), policy=POLICY, chance=random.Random(7))


def recovering(window: int, **fields: object) -> Lane:
    begun = Lane(endpoint_no=3, app_no=1, circuit=Circuit.RECOVERING, window=window, window_at=BEGIN, epoch=4, trips=1)
    return replace(begun, **fields)


def failed(lane: Lane) -> Fold:
    """Record five failures in a row, over more than a second."""
    for at in (0.1, 0.4, 0.7, 1.0):
        lane = recorded(lane, Health.BAD, at).lane
    return recorded(lane, Health.BAD, 1.3)


def back_at(lane: Lane, at: float) -> Lane:
    """Record a successful probe at this time."""
    return recorded(replace(lane, circuit=Circuit.HALF_OPEN), Health.GOOD, at, probe=True).lane


def test_recovery_continues_at_half_the_rate_of_the_first_failure():
    result = failed(recovering(64))
    lane = result.lane
    assert (lane.circuit, lane.pace, lane.pace_top) == (Circuit.OPEN, 320.0, 320.0)
    assert [event.kind for event in result.events] == [LaneEventKind.LANE_SLOWED, LaneEventKind.CIRCUIT_OPENED]
    assert effective_rate(replace(lane, window=None), POLICY) == 320.0


@pytest.mark.parametrize("window", [2, 4])
def test_a_failure_under_little_load_sets_no_pace(window):
    assert window * POLICY.recovery_rate < LOADED * FIRST
    result = failed(recovering(window))
    assert result.lane.pace is None
    assert [event.kind for event in result.events] == [LaneEventKind.CIRCUIT_OPENED]


def test_an_outage_of_a_healthy_endpoint_sets_no_pace():
    lane = failed(Lane(endpoint_no=3, app_no=1)).lane
    assert (lane.circuit, lane.pace, lane.pace_top) == (Circuit.OPEN, None, None)


def test_a_single_failure_in_a_recovery_sets_no_pace():
    lane = recorded(recovering(128), Health.BAD, 0.1).lane
    lane = recorded(lane, Health.GOOD, 2.0).lane
    assert (lane.circuit, lane.pace, lane.pace_top) == (Circuit.CLOSED, None, None)


def test_the_pace_stays_for_a_while_after_the_recovery():
    away = 2 * QUIET.total_seconds()
    lane = back_at(failed(recovering(64)).lane, away)
    for second in range(1, int(STAY.total_seconds())):
        lane = recorded(lane, Health.GOOD, away + second).lane
    assert (lane.circuit, lane.pace) == (Circuit.CLOSED, 320.0)
    lane = recorded(lane, Health.GOOD, away + STAY.total_seconds() + 1).lane
    assert lane.pace == pytest.approx(336.0)  # five percent more


def test_a_second_failure_halves_the_pace_again():
    lane = back_at(failed(recovering(64)).lane, 100)
    healthy = replace(lane, circuit=Circuit.CLOSED, window=None, pace=400.0)
    for at in (300.0, 300.4, 300.8, 301.2, 301.6):
        healthy = recorded(healthy, Health.BAD, at).lane
    assert (healthy.circuit, healthy.pace) == (Circuit.OPEN, 200.0)


def test_a_single_failure_keeps_the_learned_pace():
    lane = Lane(endpoint_no=3, app_no=1, pace=5.0, pace_at=BEGIN, pace_top=20.0, slowed_at=BEGIN)
    lane = recorded(recorded(lane, Health.BAD, 0.1).lane, Health.GOOD, 0.2).lane
    assert (lane.pace, lane.pace_top) == (5.0, 20.0)


def test_a_learned_pace_survives_an_outage():
    lane = Lane(endpoint_no=3, app_no=1, pace=5.0, pace_at=BEGIN, pace_top=6.0, slowed_at=BEGIN)
    assert failed(lane).lane.pace == 5.0
