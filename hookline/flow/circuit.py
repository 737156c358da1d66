"""The circuit of a lane: how outcomes change its health. Pure; the store calls it under the lane's row lock.

closed ─ failures ─► open ─ probe_at ─► half-open ─ good ─► recovering ─ window full ─► closed
                      ▲                    │ bad                │ failures
                      └────────────────────┴────────────────────┘
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from hookline.model import CircuitPolicy, Frozen, Lane, LaneEvent, LaneEventKind
from hookline.states import Circuit, EndpointStatus, Health


class LaneOutcome(Frozen):
    """What one recorded result, or one lost lease, means to its lane."""

    health: Health
    epoch: int  # of the lane when it was claimed
    counted: bool = False  # it gives its room back
    probe: bool = False
    hold_until: datetime | None = None
    gone: bool = False
    cause: str = ""  # for people


class Fold(Frozen):
    lane: Lane
    events: tuple[LaneEvent, ...] = ()
    wake_at: datetime | None = None  # insert a token for then, with the floor that was waiting
    wake_floor: datetime | None = None


def fold(
    lane: Lane, outcomes: Sequence[LaneOutcome], *, now: datetime, policy: CircuitPolicy, chance: random.Random
) -> Fold:
    """The lane after these outcomes, in the order of completion."""
    events: list[LaneEvent] = []
    for outcome in outcomes:
        lane = _one(lane, outcome, now, policy, chance, events)
    freed = any(outcome.counted for outcome in outcomes)
    if lane.waiting_floor is None or not (freed or events):
        return Fold(lane=lane, events=tuple(events))
    wake_at = _wake_at(lane, now)
    floor = lane.waiting_floor
    return Fold(
        lane=msgspec.structs.replace(lane, waiting_floor=None), events=tuple(events), wake_at=wake_at, wake_floor=floor
    )


def _one(
    lane: Lane,
    outcome: LaneOutcome,
    now: datetime,
    policy: CircuitPolicy,
    chance: random.Random,
    events: list[LaneEvent],
) -> Lane:
    if outcome.counted:
        lane = msgspec.structs.replace(lane, in_flight=max(0, lane.in_flight - 1))
    if outcome.hold_until is not None and (lane.held_until is None or outcome.hold_until > lane.held_until):
        lane = msgspec.structs.replace(lane, held_until=outcome.hold_until)
        events.append(_event(lane, now, LaneEventKind.LANE_HELD, outcome.cause))
    if outcome.gone and lane.status == EndpointStatus.ACTIVE:
        lane = msgspec.structs.replace(lane, status=EndpointStatus.DISABLED)
        events.append(_event(lane, now, LaneEventKind.ENDPOINT_DISABLED, outcome.cause))
    if outcome.epoch != lane.epoch or outcome.health == Health.NONE:
        if outcome.probe and outcome.epoch == lane.epoch and lane.circuit == Circuit.HALF_OPEN:
            # A probe that says nothing (released, lost, ambiguous): the next one may go at once.
            return msgspec.structs.replace(lane, circuit=Circuit.OPEN, probe_at=now, epoch=lane.epoch + 1)
        return lane
    if outcome.health == Health.GOOD:
        return _good(lane, outcome, now, policy, events)
    return _bad(lane, outcome, now, policy, chance, events)


def _good(lane: Lane, outcome: LaneOutcome, now: datetime, policy: CircuitPolicy, events: list[LaneEvent]) -> Lane:
    if lane.failures or lane.failing_since is not None:
        lane = msgspec.structs.replace(lane, failures=0, failing_since=None)
    if lane.circuit == Circuit.HALF_OPEN:
        events.append(_event(lane, now, LaneEventKind.CIRCUIT_RECOVERING, outcome.cause))
        return msgspec.structs.replace(
            lane,
            circuit=Circuit.RECOVERING,
            epoch=lane.epoch + 1,
            probe_at=None,
            window=policy.recovery_window,
            window_at=now,
            tat=None,
        )
    if lane.circuit == Circuit.RECOVERING and lane.window is not None:
        since = (now - lane.window_at).total_seconds() if lane.window_at is not None else policy.recovery_step
        if since < policy.recovery_step:
            return lane
        if lane.window * 2 <= policy.recovery_done:
            return msgspec.structs.replace(lane, window=lane.window * 2, window_at=now)
        events.append(_event(lane, now, LaneEventKind.CIRCUIT_CLOSED, outcome.cause))
        return msgspec.structs.replace(
            lane,
            circuit=Circuit.CLOSED,
            epoch=lane.epoch + 1,
            trips=0,
            opened_at=None,
            probe_at=None,
            window=None,
            window_at=None,
        )
    return lane


def _bad(
    lane: Lane,
    outcome: LaneOutcome,
    now: datetime,
    policy: CircuitPolicy,
    chance: random.Random,
    events: list[LaneEvent],
) -> Lane:
    lane = msgspec.structs.replace(lane, failures=lane.failures + 1, failing_since=lane.failing_since or now)
    if lane.circuit == Circuit.HALF_OPEN:
        return _open(lane, now, policy, chance, events, LaneEventKind.CIRCUIT_PROBE_FAILED, outcome.cause)
    if lane.circuit == Circuit.OPEN:
        return lane
    if lane.circuit == Circuit.RECOVERING and lane.window is not None:
        lane = msgspec.structs.replace(lane, window=max(1, lane.window // 2), window_at=now)
    first = lane.failing_since or now
    if lane.failures >= policy.threshold and (now - first).total_seconds() >= policy.spread:
        return _open(lane, now, policy, chance, events, LaneEventKind.CIRCUIT_OPENED, outcome.cause)
    return lane


def _open(
    lane: Lane,
    now: datetime,
    policy: CircuitPolicy,
    chance: random.Random,
    events: list[LaneEvent],
    kind: LaneEventKind,
    cause: str,
) -> Lane:
    events.append(_event(lane, now, kind, cause))
    return msgspec.structs.replace(
        lane,
        circuit=Circuit.OPEN,
        epoch=lane.epoch + 1,
        trips=lane.trips + 1,
        opened_at=lane.opened_at or now,
        probe_at=now + timedelta(seconds=cooldown(lane.trips, policy, chance)),
        window=None,
        window_at=None,
        tat=None,
    )


def cooldown(trips: int, policy: CircuitPolicy, chance: random.Random) -> float:
    """Seconds to the next probe after `trips` earlier openings: doubling to the cap, then jittered by a fifth both ways."""
    doubled = policy.cooldown * 2.0 ** min(trips, 60)
    return min(doubled, policy.cooldown_cap) * chance.uniform(0.8, 1.2)


def _wake_at(lane: Lane, now: datetime) -> datetime:
    """When somebody should look at this lane again."""
    if lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN) and lane.probe_at is not None:
        return max(now, lane.probe_at)
    return max(now, lane.held_until) if lane.held_until is not None else now


def _event(lane: Lane, now: datetime, kind: LaneEventKind, cause: str) -> LaneEvent:
    return LaneEvent(endpoint_no=lane.endpoint_no, at=now, kind=kind, cause=cause)
