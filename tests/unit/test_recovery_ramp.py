"""The recovery ramp: an endpoint that is back gets few requests at first, and its backlog is sent soon.

In any of the first ten seconds the endpoint gets at most a fifth of the requests of an unlimited lane. A backlog that
an unlimited lane would send in 20 s or more is sent within twice that time. If an unlimited
lane would need less than 8 s, both goals cannot be met: ten seconds at a fifth of the speed cost eight seconds.
"""

from __future__ import annotations

import random
from collections import deque
from datetime import timedelta

import pytest

from hookline.model.lanes import Lane
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, Health
from hookline.rules.lane.admission import admit, after_claim
from hookline.rules.lane.circuit import LaneOutcome, fold
from tests.support.lanes import BEGIN

SLOTS = 128  # slots of one worker that one lane may hold
TICK = timedelta(milliseconds=10)
POLICY = CircuitPolicy()
WELL = Lane(endpoint_no=7, app_no=3)
BACK = Lane(
    endpoint_no=7,
    app_no=3,
    circuit=Circuit.RECOVERING,
    epoch=4,
    trips=1,
    opened_at=BEGIN - timedelta(seconds=60),
    window=POLICY.recovery_window,
    window_at=BEGIN,
)


def starts(lane: Lane, messages: int, latency: float, workers: int = 1) -> list[float]:
    """Return when each request starts, in seconds, if all are waiting at first and each succeeds after `latency`."""
    now, chance, began = BEGIN, random.Random(1), []
    flying: deque[tuple[timedelta, LaneOutcome]] = deque()
    while len(began) < messages:
        done = []
        while flying and flying[0][0] <= now - BEGIN:
            done.append(flying.popleft()[1])
        if done:
            lane = fold(lane, done, now=now, policy=POLICY, chance=chance).lane
        want = min(SLOTS * workers - len(flying), messages - len(began))
        admission = admit(lane, now=now, want=want, room=None, policy=POLICY)
        outcome = LaneOutcome(health=Health.GOOD, epoch=lane.epoch, counted=admission.counted)
        flying += [(now - BEGIN + timedelta(seconds=latency), outcome)] * admission.quota
        began += [(now - BEGIN).total_seconds()] * admission.quota
        lane = after_claim(lane, admission, taken=admission.quota, left_floor=BEGIN, now=now, lease=60.0)
        now += TICK
    return began


def busiest_second(instants: list[float]) -> int:
    most = first = 0
    for last, at in enumerate(instants):
        while at - instants[first] >= 1.0:
            first += 1
        most = max(most, last - first + 1)
    return most


@pytest.mark.parametrize(("latency", "workers"), [(0.05, 1), (0.1, 1), (0.4, 1), (1.6, 1), (0.4, 4)])
def test_an_endpoint_that_is_back_sees_a_fifth_for_ten_seconds_and_is_done_in_twice_the_time(
    latency: float, workers: int
) -> None:
    messages = int(20 * workers * SLOTS / latency)
    unlimited, ours = starts(WELL, messages, latency, workers), starts(BACK, messages, latency, workers)
    assert 18 < unlimited[-1] <= 20
    assert busiest_second([at for at in ours if at < 10]) <= busiest_second(unlimited) / 5
    assert ours[-1] <= 2 * unlimited[-1]


def test_a_few_messages_are_sent_at_once() -> None:
    """The ramp is for backlogs. The requests of an ordinary second are all sent in the first second."""
    assert starts(BACK, 20, 0.05)[-1] < 1.1
