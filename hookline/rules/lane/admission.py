"""Admission: how many deliveries a claim may take from a lane now, and when a claim should check the lane again.

Both database engines call `admit` while they hold the lane's row lock, lease up to that many deliveries, and store the
result of `after_claim` if the lane is limited. The row of a healthy lane without limits is never written.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from hookline.model.lanes import Lane
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, EndpointStatus

# A claim refuses a lane that already holds the maximum number of this worker's slots. The lane then gets a wake token
# that is due after this pause, because another worker may have free slots for the lane. If many lanes are refused, some
# get a multiple of this pause: see `Division._retry_at`.
REFUSED_PAUSE = timedelta(milliseconds=50)
_OVERLAP = 1.0  # seconds by which the times of concurrent claims may differ: each uses the start of its transaction


class Admission(Struct, frozen=True, kw_only=True):
    """The decision about one lane in one claim."""

    quota: int  # maximum number of deliveries to lease now
    rest_at: datetime | None  # earliest time of the wake token for the remaining deliveries; None means no wake token
    waits: bool = False  # the lane has too many requests in flight; when one ends, the lane gets a wake token
    counted: bool = False  # the claim adds the deliveries that it leases to `in_flight` of the lane
    probe: bool = False
    lane_full: bool = False  # the lane already holds its maximum number of this worker's slots
    last_slots: bool = (
        False  # the quota is all slots that the lane may still hold; after the claim, decide when to look at it again
    )
    app_full: bool = False  # the application already holds its maximum number of this worker's slots
    paced: bool = False  # the application has a rate limit: the remaining deliveries wait for the lane's turn
    # Starts per second. Each leased delivery moves the lane's theoretical arrival time (`tat`) by 1/rate seconds.
    rate: float | None = None


def limited(lane: Lane, policy: CircuitPolicy) -> bool:
    """Return whether a limit or a circuit that is not closed restricts the lane. A claim must then add the deliveries
    that it leases to `in_flight` in the lane's row."""
    bounds = (lane.throttle_rate, lane.concurrency, window_of(lane, policy), lane.pace)
    return lane.circuit != Circuit.CLOSED or any(bound is not None for bound in bounds)


def window_of(lane: Lane, policy: CircuitPolicy) -> int | None:
    """Return the maximum number of requests in flight while the endpoint may be unhealthy; None for a healthy one.

    After `threshold` failures a closed circuit opens only when they are also spread over time. Until then the lane
    gets the small recovery window, so that an outage costs a few attempts and not one for each waiting delivery.
    """
    if lane.circuit == Circuit.CLOSED and lane.failures >= policy.threshold:
        return policy.recovery_window
    return lane.window


def room_at_pace(lane: Lane) -> int | None:
    """Return the maximum number of requests in flight at this lane's pace: as many as may start in one second.

    With a lower limit, the endpoint's response time would decide when requests start, and they would start in bursts.
    """
    return None if lane.pace is None else max(1, math.ceil(lane.pace))


def admit(
    lane: Lane,
    *,
    now: datetime,
    want: int,
    room: int | None,
    policy: CircuitPolicy,
) -> Admission:
    """Decide how many deliveries a claim may take from one lane, and when a claim should check the lane again.

    `want` is the lane's fair part of the claim. `room` is how many more slots of this worker the lane may hold; None
    means that slots do not limit the lane.
    """
    if lane.status != EndpointStatus.ACTIVE:
        # No wake token is needed: resuming inserts one, and the sweep ends the deliveries of a deleted endpoint.
        return Admission(quota=0, rest_at=None)
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
    """Return when a delivery may start. None: not before somebody resumes the lane or a request in flight ends."""
    admission = admit(lane, now=now, want=1, room=None, policy=policy)
    if not admission.quota:
        return admission.rest_at
    return now if lane.turn_at is None else max(now, lane.turn_at)


# If `_probe` or `_limit` gives a quota above 0, `rest_at` is now: deliveries that the claim leaves in the lane are
# checked again at once, even if the quota uses up a limit of the lane. The reason: a claim may lease fewer deliveries
# than its quota, because rows are not yet due or are locked elsewhere. Then there may be no request in flight whose end
# would wake the lane. Only a quota of 0 delays the lane: until the next allowed start, or until a request in flight
# ends.


def _probe(lane: Lane, now: datetime, rate: float | None) -> Admission:
    """Admit one probe at a time. It blocks the lane until its lease ends, so a crashed worker needs no cleanup."""
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
    """Return the starts per second: the lowest of the endpoint's throttle, its pace and its recovery rate."""
    window = window_of(lane, policy)
    recovery = None if window is None else window * policy.recovery_rate
    return min((rate for rate in (lane.throttle_rate, lane.pace, recovery) if rate is not None), default=None)


def burst(rate: float) -> float:
    """Return how many requests may start at once: a sixteenth of the rate per second, but at least one.

    A claim that comes late makes up for the starts that it missed, up to the burst. With a burst of a full second, a
    lane that was idle could start twice the rate in one second. Even a burst of a tenth was too large: requests may
    arrive closer together than they started, and with a rate of 20 per second a receiver on a busy machine counted 23
    in one second.
    """
    return max(1.0, rate / 16)


def farthest_ahead(rate: float) -> float:
    """Return how many seconds the theoretical arrival time (`tat`) is in the future when the whole burst is used."""
    return burst(rate) / rate


def gcra(tat: datetime | None, now: datetime, rate: float) -> tuple[int, datetime]:
    """Return how many requests may start now at this rate, and when one more may start after these."""
    step = 1.0 / rate
    # `tat` may still advance by this many seconds. Each start advances it by one step.
    slack = farthest_ahead(rate) - _ahead(tat, now, rate)
    starts = max(0, int(slack / step + 1e-9))
    return starts, now + _ceil((starts + 1) * step - slack)


def advance(tat: datetime | None, now: datetime, rate: float, starts: int) -> datetime:
    """Return the theoretical arrival time (`tat`) after more starts."""
    return now + _ceil(_ahead(tat, now, rate) + starts / rate)


def _ahead(tat: datetime | None, now: datetime, rate: float) -> float:
    """Return by how many seconds `tat` is in the future, or 0 if it is in the past.

    `tat` is the theoretical arrival time: when the next request would start if requests started exactly at the rate.
    A `tat` much further in the future than this rate allows counts as 0: it comes from a much lower rate, or the clock
    was set back. A `tat` only a little too far in the future is kept: concurrent claims and a doubled rate cause it.
    """
    ahead = max(0.0, (tat - now).total_seconds()) if tat is not None else 0.0
    return ahead if ahead <= 2 * burst(rate) / rate + _OVERLAP else 0.0


def _ceil(seconds: float) -> timedelta:
    """Round up to a whole microsecond, at least one. Otherwise a request could start too early, and a very short wait
    would become zero."""
    return timedelta(microseconds=max(1, math.ceil(seconds * 1e6 - 1e-3)))


def after_claim(
    lane: Lane, admission: Admission, *, taken: int, left_floor: datetime | None, now: datetime, lease: float
) -> Lane:
    """Return the lane after `taken` deliveries were leased. `left_floor` is the earliest due time of the remaining
    ones.

    The leased deliveries must carry the epoch of the returned lane, because a probe that replaces a lost one begins a
    new epoch.
    """
    changes: dict[str, object] = {}
    if admission.counted and taken:
        changes["in_flight"] = lane.in_flight + taken
    if admission.rate is not None and taken:
        changes["tat"] = advance(lane.tat, now, admission.rate, taken)
    if admission.probe and taken:
        changes |= {"circuit": Circuit.HALF_OPEN, "probe_at": now + timedelta(seconds=lease)}
        if lane.circuit == Circuit.HALF_OPEN:  # the previous probe is lost, and its late outcome must not count
            changes["epoch"] = lane.epoch + 1
    if admission.waits and left_floor is not None:
        # Keep the earlier of the two due times: this claim may have seen only deliveries that are due after
        # `waiting_floor`. Only `fold` in circuit.py sets `waiting_floor` to None again.
        floor = lane.waiting_floor
        changes["waiting_floor"] = left_floor if floor is None else min(floor, left_floor)
    return msgspec.structs.replace(lane, **changes) if changes else lane
