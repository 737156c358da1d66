"""What a lane lets through: how many deliveries a claim may take from it now, and when it is looked at again. Pure.

Both engines ask `admit` under the lane's row lock, take what it allows, and write `after_claim` where the lane is limited.
A healthy, unlimited lane is never written.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from hookline.model import CircuitPolicy, Lane
from hookline.model.states import Circuit, EndpointStatus

# A refused lane is looked at again after this long even if nothing wakes it: another worker may have room for it.
REFUSED_PAUSE = timedelta(milliseconds=50)
_OVERLAP = 1.0  # seconds between the clocks of two claims: each has the instant at which its transaction began


class Admission(Struct, frozen=True, kw_only=True):
    """What one claim may do with one lane."""

    quota: int  # at most this many deliveries now
    rest_at: datetime | None  # when to look again at what was left, or once it is due if that is later; None: no token
    waits: bool = False  # there is no room at all: whoever frees some inserts the token
    counted: bool = False  # those that are taken add to `in_flight`
    probe: bool = False
    lane_full: bool = False  # the lane holds as many slots of this worker as it may
    app_full: bool = False  # its application does
    paced: bool = False  # its application has a rate: what is left waits for the lane's turn
    rate: float | None = None  # starts a second; the lane's `tat` moves on by 1/rate for each one taken


def limited(lane: Lane, policy: CircuitPolicy) -> bool:
    """Whether claims on this lane are counted and written."""
    bounds = (lane.throttle_rate, lane.concurrency, window_of(lane, policy), lane.pace)
    return lane.circuit != Circuit.CLOSED or any(bound is not None for bound in bounds)


def window_of(lane: Lane, policy: CircuitPolicy) -> int | None:
    """Most requests in flight while the endpoint's health is in doubt; None: it is not.

    A closed circuit that has seen its failures in a row and not yet the time they must be spread over is as narrow as one
    that has just recovered: an outage costs a few attempts while it is being recognised, not the whole backlog's.
    """
    if lane.circuit == Circuit.CLOSED and lane.failures >= policy.threshold:
        return policy.recovery_window
    return lane.window


def room_at_pace(lane: Lane) -> int | None:
    """Most requests in flight at this lane's pace: a second's starts. With fewer, it is the answers that set the pace: an
    endpoint that takes a second to answer gets the next requests in bunches, and refuses most of each."""
    return None if lane.pace is None else max(1, math.ceil(lane.pace))


def admit(
    lane: Lane,
    *,
    now: datetime,
    want: int,
    room: int | None,
    policy: CircuitPolicy,
) -> Admission:
    """Decide for one lane. `want` is its fair part of the claim; `room` is how many more slots of this worker it may hold."""
    if lane.status != EndpointStatus.ACTIVE:
        return Admission(quota=0, rest_at=None)  # held: resume inserts a token; the sweep ends those of a deleted one
    if lane.held_until is not None and lane.held_until > now:
        return Admission(quota=0, rest_at=lane.held_until)
    if want <= 0:
        return Admission(quota=0, rest_at=now)
    if lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN):
        return _probe(lane, now, effective_rate(lane, policy))
    if room is not None and room <= 0:
        return Admission(quota=0, rest_at=now + REFUSED_PAUSE, lane_full=True)
    quota = want if room is None else min(want, room)
    if not limited(lane, policy):
        return Admission(quota=quota, rest_at=now)
    return _limit(lane, now, quota, policy)


def next_start(lane: Lane, *, now: datetime, policy: CircuitPolicy) -> datetime | None:
    """When a delivery may start; None: not before somebody resumes the lane, or a request in flight has ended."""
    admission = admit(lane, now=now, want=1, room=None, policy=policy)
    if not admission.quota:
        return admission.rest_at
    return now if lane.turn_at is None else max(now, lane.turn_at)


# What a claim leaves is looked at once more at once, even where its quota fills the lane: the claim may take fewer than its
# quota (rows not yet due, or locked elsewhere), and then nobody is in flight to free the room that the rest would wait for.
# Only a look that gets nothing puts the lane off: until the next start, or until whoever took the room gives it back.


def _probe(lane: Lane, now: datetime, rate: float | None) -> Admission:
    """One probe at a time. It holds the lane until its lease is over, so a dead prober needs no sweep."""
    if lane.probe_at is not None and lane.probe_at > now:
        return Admission(quota=0, rest_at=lane.probe_at, waits=lane.circuit == Circuit.HALF_OPEN)
    if rate is not None:
        starts, next_at = gcra(lane.tat, now, rate)
        if not starts:
            return Admission(quota=0, rest_at=next_at)
    return Admission(quota=1, rest_at=now, counted=True, probe=True, rate=rate)


def _limit(lane: Lane, now: datetime, want: int, policy: CircuitPolicy) -> Admission:
    room = want
    for bound in (lane.concurrency, window_of(lane, policy), room_at_pace(lane)):
        if bound is not None:
            room = min(room, max(1, bound) - lane.in_flight)
    if room <= 0:
        return Admission(quota=0, rest_at=None, waits=True)
    rate = effective_rate(lane, policy)
    if rate is None:
        return Admission(quota=room, rest_at=now, counted=True)
    starts, next_at = gcra(lane.tat, now, rate)
    if not starts:
        return Admission(quota=0, rest_at=next_at)
    return Admission(quota=min(room, starts), rest_at=now, counted=True, rate=rate)


def effective_rate(lane: Lane, policy: CircuitPolicy) -> float | None:
    """Starts a second: the least of the endpoint's throttle, its pace, and the window's part of the recovery rate."""
    window = window_of(lane, policy)
    recovery = None if window is None else window * policy.recovery_rate
    return min((rate for rate in (lane.throttle_rate, lane.pace, recovery) if rate is not None), default=None)


def burst(rate: float) -> float:
    """Starts that may come at once: a sixteenth of the rate. As much as the rate would let twice the rate through in a second.

    A look that comes late loses nothing while it is within the burst; but what is on the way may arrive closer together than it
    started, and with a tenth of 20 a receiver counted 23 in a second on a busy machine.
    """
    return max(1.0, rate / 16)


def farthest_ahead(rate: float) -> float:
    """Seconds by which `tat` may be ahead of now: with all of the burst used."""
    return burst(rate) / rate


def gcra(tat: datetime | None, now: datetime, rate: float) -> tuple[int, datetime]:
    """How many starts conform now, and the instant of the next one after those."""
    step = 1.0 / rate
    slack = farthest_ahead(rate) - _ahead(tat, now, rate)  # each start uses one step of it
    starts = max(0, int(slack / step + 1e-9))
    return starts, now + _ceil((starts + 1) * step - slack)


def advance(tat: datetime | None, now: datetime, rate: float, starts: int) -> datetime:
    """The theoretical arrival time after `starts` more."""
    return now + _ceil(_ahead(tat, now, rate) + starts / rate)


def _ahead(tat: datetime | None, now: datetime, rate: float) -> float:
    """Seconds by which the lane is ahead of its rate. One that is further ahead than this rate leads was set by a far lower
    one, or by a clock that fell since: it says nothing. A claim that began a moment ago, or a rate that doubled, is not far."""
    ahead = max(0.0, (tat - now).total_seconds()) if tat is not None else 0.0
    return ahead if ahead <= 2 * burst(rate) / rate + _OVERLAP else 0.0


def _ceil(seconds: float) -> timedelta:
    """Rounded up to the microsecond, at least one: rounded down, a start comes too early, and a short wait never ends."""
    return timedelta(microseconds=max(1, math.ceil(seconds * 1e6 - 1e-3)))


def after_claim(
    lane: Lane, admission: Admission, *, taken: int, left_floor: datetime | None, now: datetime, lease: float
) -> Lane:
    """The lane once `taken` were leased; `left_floor` is the smallest due instant of what was left, if anything was.

    The jobs carry the epoch of this lane, not of the one before: a probe in place of a lost one begins an epoch.
    """
    changes: dict[str, object] = {}
    if admission.counted and taken:
        changes["in_flight"] = lane.in_flight + taken
    if admission.rate is not None and taken:
        changes["tat"] = advance(lane.tat, now, admission.rate, taken)
    if admission.probe and taken:
        changes |= {"circuit": Circuit.HALF_OPEN, "probe_at": now + timedelta(seconds=lease)}
        if lane.circuit == Circuit.HALF_OPEN:  # the last prober is lost: its late outcome must not count
            changes["epoch"] = lane.epoch + 1
    if admission.waits and left_floor is not None:
        # Only `fold` clears it: this claim may have scanned from a later floor than that of what already waits.
        floor = lane.waiting_floor
        changes["waiting_floor"] = left_floor if floor is None else min(floor, left_floor)
    return msgspec.structs.replace(lane, **changes) if changes else lane
