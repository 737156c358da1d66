"""How the time of a delivery was spent, and the events in that time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from hookline.model.attempts import Attempt
from hookline.model.lanes import LaneEvent
from hookline.model.lanes import LaneEventKind as K
from hookline.model.states import Circuit, EndpointStatus, ErrorKind
from hookline.services.explain.model import DeliveryHistory
from hookline.services.explain.next_step import current_state

# Events that begin (True) or end (False) a hold of a lane. A lane is held by its circuit (first dict), or by the
# status of its endpoint (second dict).
HOLDS = (
    {
        K.CIRCUIT_OPENED: True,
        K.CIRCUIT_PROBE_FAILED: True,
        K.CIRCUIT_RECOVERING: False,
        K.CIRCUIT_CLOSED: False,
        K.CIRCUIT_RESET: False,
    },
    {K.ENDPOINT_PAUSED: True, K.ENDPOINT_DISABLED: True, K.ENDPOINT_RESUMED: False, K.ENDPOINT_ENABLED: False},
)


class Part(StrEnum):
    """How a part of a delivery's time was spent."""

    WAITING = "waiting"
    HELD = "held"  # the circuit or the status of the endpoint held the lane, or a Retry-After holds it now
    FAILED = "failed"  # a failed attempt
    DELIVERED = "delivered"


class Stretch(Struct, frozen=True, kw_only=True):
    part: Part
    since: datetime
    until: datetime


def stretches(history: DeliveryHistory, now: datetime) -> list[Stretch]:
    """Split the time from acceptance to the end, or until now, into attempts, holds and waiting, without gaps."""
    start, end = history.delivery.accepted_at, max(history.end(now), history.delivery.accepted_at)
    found: list[Stretch] = []
    at = start
    for attempt in sorted(history.attempts, key=lambda each: each.started_at):
        began = min(max(attempt.started_at, at), end)
        over = min(max(began, attempt.started_at + timedelta(microseconds=attempt.timing.total)), end)
        found += _between(holds(history, now), at, began)
        part = Part.DELIVERED if attempt.outcome == "delivered" else Part.FAILED
        found.append(Stretch(part=part, since=began, until=over))
        at = over
    return found + _between(holds(history, now), at, end)


def holds(history: DeliveryHistory, now: datetime) -> list[tuple[datetime, datetime]]:
    """Return the periods in which the delivery's lane was held, in order and without overlaps."""
    end = history.end(now)
    found: list[tuple[datetime, datetime]] = []
    held = [any(event.kind in begins for event in history.holding) for begins in HOLDS]
    since = history.delivery.accepted_at
    for event in history.events:
        before = any(held)
        held = [begins.get(event.kind, was) for begins, was in zip(HOLDS, held, strict=True)]
        if before and not any(held):
            found.append((since, event.at))
        elif not before and any(held):
            since = event.at
    if not any(held) and _held_by_retry_after(history, now):
        asked = [event.at for event in history.events if event.kind == K.LANE_HELD]
        return [*found, (max([history.delivery.accepted_at, *asked[-1:], *(over for _, over in found)]), end)]
    return [*found, (since, end)] if any(held) and since < end else found


def _held_by_retry_after(history: DeliveryHistory, now: datetime) -> bool:
    """Return whether a Retry-After holds the lane now. No event marks the end of such a hold, so past holds of this
    kind are shown as waiting."""
    if history.lane is None or current_state(history, now) != "held":
        return False
    shut = history.lane.lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN)
    return history.lane.lane.status == EndpointStatus.ACTIVE and not shut


def _between(held: Sequence[tuple[datetime, datetime]], since: datetime, until: datetime) -> list[Stretch]:
    found: list[Stretch] = []
    for began, over in held:
        first, last = max(began, since), min(over, until)
        if first < last:
            if since < first:
                found.append(Stretch(part=Part.WAITING, since=since, until=first))
            found.append(Stretch(part=Part.HELD, since=first, until=last))
            since = last
    return [*found, Stretch(part=Part.WAITING, since=since, until=until)] if since < until else found


class Happening(Struct, frozen=True, kw_only=True):
    at: datetime
    what: Attempt | LaneEvent
    waited: timedelta = timedelta(0)  # for an attempt: time since the end of the previous attempt, or since acceptance


def happenings(history: DeliveryHistory) -> list[Happening]:
    """Return the attempts and the events of the lane in order of time."""
    found = [Happening(at=event.at, what=event) for event in history.events]
    before = history.delivery.accepted_at
    for attempt in sorted(history.attempts, key=lambda each: each.started_at):
        waited = max(attempt.started_at - before, timedelta(0))
        found.append(Happening(at=attempt.started_at, what=attempt, waited=waited))
        before = attempt.started_at + timedelta(microseconds=attempt.timing.total)
    return sorted(found, key=lambda each: each.at)


class Phase(StrEnum):
    DNS = "name"
    CONNECT = "connect"
    TLS = "TLS"
    ANSWER = "answer"  # from the request to the first byte of the response
    BODY = "body"


def phases(attempt: Attempt) -> list[tuple[Phase, int]]:
    """Return the microseconds of each phase that took time. The time after the last measured phase belongs to the
    phase that was then in progress."""
    timing = attempt.timing
    ends = [
        (Phase.DNS, timing.dns),
        (Phase.CONNECT, timing.connect),
        (Phase.TLS, timing.tls),
        (Phase.ANSWER, timing.first_byte),
        (_last_phase(attempt), timing.total),
    ]
    reached = 0
    found: list[tuple[Phase, int]] = []
    for phase, end in ends:
        if end > reached:
            found.append((phase, end - reached))
            reached = end
    return found


def _last_phase(attempt: Attempt) -> Phase:
    timing = attempt.timing
    if timing.first_byte:
        return Phase.BODY
    if timing.connect:
        # `tls` is 0 if the TLS handshake failed, and also if the URL uses plain HTTP. The detail tells them apart.
        secured = timing.tls or not attempt.detail.startswith("TLS")
        return Phase.ANSWER if secured else Phase.TLS
    return Phase.DNS if attempt.error == ErrorKind.DNS else Phase.CONNECT
