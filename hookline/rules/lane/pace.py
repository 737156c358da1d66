"""The pace of a lane: an adaptive rate limit for an endpoint that asks for fewer requests.

A complaint is a 429 response, or a 503 response with Retry-After. The first complaint gives the lane a pace: the rate
at which a recovery starts, or half the lane's rate if that is lower. A later complaint halves the pace. For
`recovery_step` seconds after a complaint lowered the pace, further complaints are ignored. A complaint is also ignored
if its request was claimed before the pace was last lowered.

Successes raise the pace: first it doubles, then it goes half-way back to the rate that was too high, then it grows by
a twentieth of that rate at a time. So the pace settles just below the rate that the endpoint accepts. Apart from the
case below, a lane without complaints has no pace.

An endpoint may also fail again while it recovers. Then the rate of the next recovery stops at half the rate at which
the endpoint failed, stays there for a while, and rises slowly from there.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from hookline.model.lanes import Lane
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit
from hookline.rules.lane.admission import effective_rate

FLOOR = 1 / 60  # lowest pace in requests per second; an endpoint that complains at this rate counts as failing
# Each raise adds at least this fraction of `pace_top`, the rate that was too high, but never more than doubles the pace.
GENTLE = 1 / 20
WELL_ABOVE = 4.0  # the pace is removed when it reaches this multiple of the rate that was too high
# An endpoint failed under load if its lane's rate was at least this multiple of the rate at which a recovery starts.
LOADED = 4.0
STAY = timedelta(minutes=3)  # the pace is not raised for at least this long after a successful probe of an open circuit
QUIET = timedelta(minutes=10)  # the pace is removed after this time without a complaint


def can_slow(lane: Lane, policy: CircuitPolicy) -> bool:
    """Return whether the lane has no rate limit, or one above the lowest pace. If so, a complaint (such as a 429) can
    lower the pace and need not count as a failure."""
    rate = effective_rate(lane, policy)
    return rate is None or rate > FLOOR


def lower_pace(lane: Lane, *, now: datetime, claimed_at: datetime | None, policy: CircuitPolicy) -> Lane:
    """Lower the pace after a complaint, such as a 429.

    The pace stays the same if it was lowered less than `recovery_step` seconds ago. It also stays the same if the
    request that got the complaint was claimed before the pace was last lowered.
    """
    if not _passed(lane.slowed_at, now, policy) or _before(claimed_at, lane.slowed_at):
        return lane
    rate = effective_rate(lane, policy)
    gentle = policy.recovery_window * policy.recovery_rate
    if lane.pace is None:
        pace = gentle if rate is None else min(gentle, rate / 2)
        return replace(lane, pace=max(FLOOR, pace), pace_at=now, pace_top=rate, slowed_at=now)
    # Start from the effective rate: the recovery window or a throttle may have kept the lane well below its pace.
    pace = max(FLOOR, (lane.pace if rate is None else min(lane.pace, rate)) / 2)
    return replace(lane, pace=pace, pace_at=now, pace_top=_rate_too_high(lane), slowed_at=now)


def raise_pace(lane: Lane, *, now: datetime, claimed_at: datetime | None, policy: CircuitPolicy) -> Lane:
    """Raise the pace after a successful request, or remove the pace if the lane no longer needs one.

    The pace is not raised if it changed less than `recovery_step` seconds ago, or if the successful request was claimed
    before that change.
    """
    if lane.pace is None:
        return lane
    if lane.slowed_at is None or now - lane.slowed_at >= QUIET:
        return without_pace(lane)
    if not _passed(lane.pace_at, now, policy) or _before(claimed_at, lane.pace_at):
        return lane
    raised = _raised(lane.pace, lane.pace_top)
    if raised >= _highest_pace(lane, policy):
        return without_pace(lane)
    if lane.throttle_rate is not None:
        raised = min(raised, lane.throttle_rate)
    return replace(lane, pace=raised, pace_at=now) if raised > lane.pace else lane


def remember_rate(lane: Lane, policy: CircuitPolicy) -> Lane:
    """Store the current rate of a recovering lane in `pace_top` at the first failure.

    Further failures during the recovery halve the number of requests that may be in flight, and this lowers the rate.
    But `pace_after_failure` needs the rate from before the failures.
    """
    if lane.circuit == Circuit.RECOVERING and lane.pace is None:
        return replace(lane, pace_top=effective_rate(lane, policy))
    return lane


def pace_after_failure(lane: Lane, *, now: datetime, policy: CircuitPolicy) -> Lane:
    """When the circuit opens, set the pace to half the rate that the lane had before the failures, if that rate was
    high enough to have caused them (see `LOADED`)."""
    loaded = LOADED * policy.recovery_window * policy.recovery_rate
    rate = lane.pace_top if lane.pace is None else lane.pace
    if rate is None or rate < loaded:
        return lane
    pace = rate / 2
    return replace(lane, pace=pace, pace_at=now, pace_top=pace, slowed_at=now)


def pace_after_recovery(lane: Lane, *, now: datetime) -> Lane:
    """Keep the learned pace after a successful probe of an open circuit, and do not raise it for `STAY`.

    The pace is removed after the time `QUIET` without a complaint. Start this time again now, because the
    endpoint got no requests except probes while the circuit was open.
    """
    return lane if lane.pace is None else replace(lane, pace_at=now + STAY, slowed_at=now)


def without_pace(lane: Lane) -> Lane:
    return replace(lane, pace=None, pace_at=None, pace_top=None, slowed_at=None)


def _raised(pace: float, top: float | None) -> float:
    if top is None:
        return pace * 2
    return min(pace * 2, pace + max(GENTLE * top, (top - pace) / 2))


def _highest_pace(lane: Lane, policy: CircuitPolicy) -> float:
    """Return the pace that is so high that the lane no longer needs a limit.

    It is a multiple of the rate that was too high for the endpoint. If no such rate is known, it is a multiple of the
    rate at the end of a recovery.
    """
    return WELL_ABOVE * (lane.pace_top or policy.recovery_done * policy.recovery_rate)


def _rate_too_high(lane: Lane) -> float | None:
    """Return the rate that was too high for the endpoint when it sent a complaint (a 429, or a 503 with Retry-After).

    If the pace was raised since the previous complaint, this is the current pace. Otherwise the new complaint only
    shows that the endpoint is still busy, so the rate that an earlier complaint stored (`pace_top`) stays.
    """
    raised = lane.pace_at is not None and lane.slowed_at is not None and lane.pace_at > lane.slowed_at
    return lane.pace if raised or lane.pace_top is None else lane.pace_top


def _passed(since: datetime | None, now: datetime, policy: CircuitPolicy) -> bool:
    return since is None or (now - since).total_seconds() >= policy.recovery_step


def _before(claimed_at: datetime | None, changed_at: datetime | None) -> bool:
    return claimed_at is not None and changed_at is not None and claimed_at < changed_at
