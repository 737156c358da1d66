"""The pace of a lane: how fast an endpoint that answers "too fast" is sent to, and how the pace rises again. Pure.

A complaint is a 429, or a 503 that says when to come back. It halves the pace, once for all the answers to one burst. Good
answers raise it: doubling at first, then half-way back to what was too much, then a twentieth of that at a time. So it
settles just under what the endpoint takes and feels its way beyond. A lane that nobody has complained about has no pace.

An endpoint that goes down while it is being brought back complains too, in its way: the next recovery stops at half the rate at
which it fell, stays there for a while, and feels its way from there.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from hookline.model import CircuitPolicy, Lane
from hookline.model.states import Circuit
from hookline.rules.lane.admission import effective_rate

FLOOR = 1 / 60  # starts a second: slower than this is not sending, and what complains of it is broken
GENTLE = 1 / 20  # of what was too much: the smallest raise
WELL_ABOVE = 4.0  # times what was too much: it was too much once, and is no more
LOADED = 4.0  # times the first rate of a recovery: one that falls below it was not well yet, and fell under no load
STAY = timedelta(minutes=3)  # at the pace with which an endpoint came back, before it is raised
QUIET = timedelta(minutes=10)  # without a complaint: whatever was too much then says nothing about now


def can_slow(lane: Lane, policy: CircuitPolicy) -> bool:
    """Whether going slower is still an answer to a complaint."""
    rate = effective_rate(lane, policy)
    return rate is None or rate > FLOOR


def slower(lane: Lane, *, now: datetime, claimed_at: datetime | None, policy: CircuitPolicy) -> Lane:
    """After a complaint about a request of `claimed_at`. What was sent before the last cut complains of the pace before it."""
    if not _passed(lane.slowed_at, now, policy) or _before(claimed_at, lane.slowed_at):
        return lane
    rate = effective_rate(lane, policy)
    gentle = policy.recovery_window * policy.recovery_rate
    if lane.pace is None:
        pace = gentle if rate is None else min(gentle, rate / 2)
        return replace(lane, pace=max(FLOOR, pace), pace_at=now, pace_top=rate, slowed_at=now)
    # Of the rate that was complained of: a window or a throttle may have kept the lane well below its pace.
    pace = max(FLOOR, (lane.pace if rate is None else min(lane.pace, rate)) / 2)
    return replace(lane, pace=pace, pace_at=now, pace_top=_too_much(lane), slowed_at=now)


def quicker(lane: Lane, *, now: datetime, claimed_at: datetime | None, policy: CircuitPolicy) -> Lane:
    """After a good answer to a request of `claimed_at`. One that was sent before the pace last changed says nothing of it."""
    if lane.pace is None:
        return lane
    if lane.slowed_at is None or now - lane.slowed_at >= QUIET:
        return forgotten(lane)
    if not _passed(lane.pace_at, now, policy) or _before(claimed_at, lane.pace_at):
        return lane
    raised = _raised(lane.pace, lane.pace_top)
    if raised >= _enough(lane, policy):
        return forgotten(lane)
    if lane.throttle_rate is not None:
        raised = min(raised, lane.throttle_rate)
    return replace(lane, pace=raised, pace_at=now) if raised > lane.pace else lane


def failing(lane: Lane, policy: CircuitPolicy) -> Lane:
    """At the first failure in a row: what the endpoint gets now may be what knocks it down. From here on the window narrows."""
    if lane.circuit == Circuit.RECOVERING and lane.pace is None:
        return replace(lane, pace_top=effective_rate(lane, policy))
    return lane


def fallen(lane: Lane, *, now: datetime, policy: CircuitPolicy) -> Lane:
    """As the circuit opens, if the endpoint fell under load."""
    loaded = LOADED * policy.recovery_window * policy.recovery_rate
    rate = lane.pace_top if lane.pace is None else lane.pace
    if rate is None or rate < loaded:
        return lane
    pace = rate / 2
    return replace(lane, pace=pace, pace_at=now, pace_top=pace, slowed_at=now)


def back(lane: Lane, *, now: datetime) -> Lane:
    """A probe went well: the pace that was learnt is the one to come back with. The time that it was away does not count."""
    return lane if lane.pace is None else replace(lane, pace_at=now + STAY, slowed_at=now)


def forgotten(lane: Lane) -> Lane:
    return replace(lane, pace=None, pace_at=None, pace_top=None, slowed_at=None)


def _raised(pace: float, top: float | None) -> float:
    if top is None:
        return pace * 2
    return min(pace * 2, pace + max(GENTLE * top, (top - pace) / 2))


def _enough(lane: Lane, policy: CircuitPolicy) -> float:
    """Where nothing is known to be too much, the pace at which a recovery ends stands in for it."""
    return WELL_ABOVE * (lane.pace_top or policy.recovery_done * policy.recovery_rate)


def _too_much(lane: Lane) -> float | None:
    """The pace, if it had been raised to it. A second cut in a row says how long the endpoint is busy, not how much it takes."""
    raised = lane.pace_at is not None and lane.slowed_at is not None and lane.pace_at > lane.slowed_at
    return lane.pace if raised or lane.pace_top is None else lane.pace_top


def _passed(since: datetime | None, now: datetime, policy: CircuitPolicy) -> bool:
    return since is None or (now - since).total_seconds() >= policy.recovery_step


def _before(claimed_at: datetime | None, changed_at: datetime | None) -> bool:
    return claimed_at is not None and changed_at is not None and claimed_at < changed_at
