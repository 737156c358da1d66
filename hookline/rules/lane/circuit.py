"""The circuit of a lane: how outcomes change its health. Pure; the store calls it under the lane's row lock.

closed ─ failures ─► open ─ probe_at ─► half-open ─ good ─► recovering ─ window full ─► closed
                      ▲                    │ bad                │ failures
                      └────────────────────┴────────────────────┘
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from hookline.model import CircuitPolicy, Lane, LaneEvent, LaneEventKind
from hookline.model.states import Circuit, EndpointStatus, Health
from hookline.rules.lane.pace import back, can_slow, failing, fallen, forgotten, quicker, slower

A_MOMENT = timedelta(seconds=5)  # a hold that is no longer than this is told of ...
SELDOM = timedelta(seconds=60)  # ... only if the lane was not held for this long


class LaneOutcome(Struct, frozen=True, kw_only=True):
    """What one recorded result, or one lost lease, means to its lane."""

    health: Health
    epoch: int  # of the lane when it was claimed
    claimed_at: datetime | None = None  # None: as if it were now
    counted: bool = False  # it gives its room back
    probe: bool = False
    hold_until: datetime | None = None
    gone: bool = False
    slow_down: bool = False  # a complaint: too fast
    cause: str = ""  # for people


class Fold(Struct, frozen=True, kw_only=True):
    lane: Lane
    events: tuple[LaneEvent, ...] = ()
    wake_at: datetime | None = None  # insert a token for then, with the floor that was waiting
    wake_floor: datetime | None = None


def fold(
    lane: Lane, outcomes: Sequence[LaneOutcome], *, now: datetime, policy: CircuitPolicy, chance: random.Random
) -> Fold:
    """The lane after these outcomes, in the order of completion."""
    step = _Step(now, policy, chance)
    before = lane
    for outcome in outcomes:
        lane = step.apply(lane, outcome)
    events = tuple(step.events)
    # Room is given back, or the doubt that made the lane narrow is over.
    freed = any(outcome.counted for outcome in outcomes) or (before.failures > 0 and not lane.failures)
    if lane.waiting_floor is None or not (freed or events):
        return Fold(lane=lane, events=events)
    return Fold(
        lane=replace(lane, waiting_floor=None),
        events=events,
        wake_at=_wake_at(lane, now),
        wake_floor=lane.waiting_floor,
    )


def reset(lane: Lane, *, now: datetime, cause: str) -> Fold:
    """An operator says that the endpoint is well: what held its lane back is forgotten, apart from its own limits.

    Outcomes of requests that are still out belong to the epoch before and say nothing about its health; what the endpoint asks
    for in them is done all the same: a `Retry-After`, a 410. The caller wakes the lane.
    """
    clean = replace(
        forgotten(lane),
        circuit=Circuit.CLOSED,
        failures=0,
        failing_since=None,
        trips=0,
        opened_at=None,
        probe_at=None,
        window=None,
        window_at=None,
        held_until=None,
        tat=None if lane.throttle_rate is None else lane.tat,
    )
    if clean == replace(lane, tat=clean.tat):
        return Fold(lane=lane)
    event = LaneEvent(endpoint_no=lane.endpoint_no, at=now, kind=LaneEventKind.CIRCUIT_RESET, cause=cause)
    return Fold(lane=replace(clean, epoch=lane.epoch + 1), events=(event,))


def open_by_hand(
    lane: Lane, *, now: datetime, until: datetime | None, cause: str, policy: CircuitPolicy, chance: random.Random
) -> Fold:
    """An operator says that nothing may be sent until then, or for a usual cooldown; then comes a probe, as always.

    Failures are counted anew: time in which nothing was tried is no part of a steady failure. Waits do not grow by what
    people do, and a probe that is out keeps the lane for as long as it was promised. The caller wakes the lane.
    """
    step = _Step(now, policy, chance)
    opened = step.open(lane, LaneEventKind.CIRCUIT_OPENED, cause)
    busy = lane.probe_at if lane.circuit == Circuit.HALF_OPEN else None
    after = replace(
        opened,
        failures=0,
        failing_since=None,
        trips=max(1, lane.trips),
        probe_at=max(until or opened.probe_at or now, busy or now),
    )
    return Fold(lane=after, events=tuple(step.events))


def close_by_hand(lane: Lane, *, now: datetime, cause: str, policy: CircuitPolicy, chance: random.Random) -> Fold:
    """An operator says that the endpoint is back: the lane goes on as after a good probe. What else holds it back stays.

    The caller wakes the lane.
    """
    if lane.circuit not in (Circuit.OPEN, Circuit.HALF_OPEN):
        return Fold(lane=lane)
    step = _Step(now, policy, chance)
    after = step.good(replace(lane, circuit=Circuit.HALF_OPEN), cause)
    return Fold(lane=after, events=tuple(step.events))


class _Step:
    """One fold: what stays the same over its outcomes, and the events they caused."""

    def __init__(self, now: datetime, policy: CircuitPolicy, chance: random.Random) -> None:
        self.now = now
        self.policy = policy
        self.chance = chance
        self.events: list[LaneEvent] = []

    def apply(self, lane: Lane, outcome: LaneOutcome) -> Lane:
        if outcome.counted:
            lane = replace(lane, in_flight=max(0, lane.in_flight - 1))
        if outcome.hold_until is not None:
            lane = self._hold(lane, outcome.hold_until, outcome.cause)
        if outcome.gone and lane.status == EndpointStatus.ACTIVE:
            self._note(lane, LaneEventKind.ENDPOINT_DISABLED, outcome.cause)
            lane = replace(lane, status=EndpointStatus.DISABLED)
        if outcome.epoch != lane.epoch:
            return lane  # claimed before the circuit last changed: it says nothing about now
        match outcome.health:
            case Health.GOOD:
                return self.good(self._quicken(lane, outcome), outcome.cause)
            case Health.BAD if outcome.slow_down and self._heeds(lane):
                return self._slow(lane, outcome)
            case Health.BAD:
                return self._bad(lane, outcome.cause)
            case Health.NONE:
                return self._silent(lane, outcome)

    def _hold(self, lane: Lane, until: datetime, cause: str) -> Lane:
        held = lane.held_until
        if until <= self.now or (held is not None and until <= held):
            return lane
        if held is None or self._worth_telling(held, until):
            self._note(lane, LaneEventKind.LANE_HELD, cause)
        return replace(lane, held_until=until)

    def _worth_telling(self, held: datetime, until: datetime) -> bool:
        """Only the first of a burst of answers is an event: the others hold the lane a little longer. So do an endpoint's that
        says "one second" again and again: it would fill its timeline."""
        if held <= self.now - SELDOM:
            return True
        return held <= self.now + A_MOMENT and until > max(held, self.now) + A_MOMENT

    def _heeds(self, lane: Lane) -> bool:
        """A complaint is no failure while the lane can go slower. Of a probe it is one: nothing goes slower than probes."""
        return lane.circuit in (Circuit.CLOSED, Circuit.RECOVERING) and can_slow(lane, self.policy)

    def _slow(self, lane: Lane, outcome: LaneOutcome) -> Lane:
        if lane.pace is None:
            self._note(lane, LaneEventKind.LANE_SLOWED, outcome.cause)
        return slower(lane, now=self.now, claimed_at=outcome.claimed_at, policy=self.policy)

    def _quicken(self, lane: Lane, outcome: LaneOutcome) -> Lane:
        if lane.circuit == Circuit.HALF_OPEN:
            return lane  # one answer after an outage: that the endpoint is back, not what it takes
        after = quicker(lane, now=self.now, claimed_at=outcome.claimed_at, policy=self.policy)
        if lane.pace is not None and after.pace is None:
            self._note(lane, LaneEventKind.LANE_AT_SPEED, outcome.cause)
        return after

    def _silent(self, lane: Lane, outcome: LaneOutcome) -> Lane:
        """Released, lost or ambiguous. If it was the probe, the next one may go at once."""
        if outcome.probe and lane.circuit == Circuit.HALF_OPEN:
            return replace(lane, circuit=Circuit.OPEN, probe_at=self.now, epoch=lane.epoch + 1)
        return lane

    def good(self, lane: Lane, cause: str) -> Lane:
        if lane.failures or lane.failing_since is not None:
            lane = replace(lane, failures=0, failing_since=None)
        match lane.circuit:
            case Circuit.HALF_OPEN:
                self._note(lane, LaneEventKind.CIRCUIT_RECOVERING, cause)
                lane = back(lane, now=self.now)
                return self._turn(lane, Circuit.RECOVERING, window=self.policy.recovery_window, window_at=self.now)
            case Circuit.RECOVERING:
                return self._widen(lane, cause)
            case _:
                return lane

    def _widen(self, lane: Lane, cause: str) -> Lane:
        """The window doubles at most once a step; past the last one the circuit is closed."""
        window, since = lane.window or self.policy.recovery_window, lane.window_at or self.now
        if (self.now - since).total_seconds() < self.policy.recovery_step:
            return lane
        if window * 2 <= self.policy.recovery_done:
            return replace(lane, window=window * 2, window_at=self.now)
        self._note(lane, LaneEventKind.CIRCUIT_CLOSED, cause)
        top = None if lane.pace is None else lane.pace_top
        return replace(self._turn(lane, Circuit.CLOSED), trips=0, opened_at=None, pace_top=top)

    def _bad(self, lane: Lane, cause: str) -> Lane:
        first = lane.failing_since or self.now
        if not lane.failures:
            lane = failing(lane, self.policy)
        lane = replace(lane, failures=lane.failures + 1, failing_since=first)
        if lane.circuit == Circuit.OPEN:
            return lane
        if lane.circuit == Circuit.HALF_OPEN:
            return self.open(lane, LaneEventKind.CIRCUIT_PROBE_FAILED, cause)
        # A stray failure leaves the window alone: an endpoint that fails one in twenty would never get out of recovery.
        if lane.window is not None and 2 * lane.failures > self.policy.threshold:
            lane = replace(lane, window=max(1, lane.window // 2), window_at=self.now)
        spread = (self.now - first).total_seconds()
        if lane.failures >= self.policy.threshold and spread >= self.policy.spread:
            return self.open(self._fallen(lane, cause), LaneEventKind.CIRCUIT_OPENED, cause)
        return lane

    def _fallen(self, lane: Lane, cause: str) -> Lane:
        after = fallen(lane, now=self.now, policy=self.policy)
        if lane.pace is None and after.pace is not None:
            self._note(lane, LaneEventKind.LANE_SLOWED, cause)
        return after

    def open(self, lane: Lane, kind: LaneEventKind, cause: str) -> Lane:
        self._note(lane, kind, cause)
        wait = timedelta(seconds=cooldown(lane.trips, self.policy, self.chance))
        lane = self._turn(lane, Circuit.OPEN, probe_at=self.now + wait)
        return replace(lane, trips=lane.trips + 1, opened_at=lane.opened_at or self.now)

    def _turn(
        self,
        lane: Lane,
        circuit: Circuit,
        *,
        probe_at: datetime | None = None,
        window: int | None = None,
        window_at: datetime | None = None,
    ) -> Lane:
        """Each change of the circuit raises the epoch and begins with its own probe, window and pace."""
        return replace(
            lane,
            circuit=circuit,
            epoch=lane.epoch + 1,
            probe_at=probe_at,
            window=window,
            window_at=window_at,
            tat=None if lane.throttle_rate is None and lane.pace is None else lane.tat,
        )

    def _note(self, lane: Lane, kind: LaneEventKind, cause: str) -> None:
        self.events.append(LaneEvent(endpoint_no=lane.endpoint_no, at=self.now, kind=kind, cause=cause))


def cooldown(trips: int, policy: CircuitPolicy, chance: random.Random) -> float:
    """Seconds to the next probe after `trips` earlier openings: doubling, jittered by a fifth both ways, never past the cap."""
    doubled = min(policy.cooldown_cap, policy.cooldown * 2.0 ** min(trips, 60))
    return chance.uniform(0.8 * doubled, min(1.2 * doubled, policy.cooldown_cap))


def _wake_at(lane: Lane, now: datetime) -> datetime:
    """When somebody should look at this lane again."""
    if lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN) and lane.probe_at is not None:
        return max(now, lane.probe_at)
    return max(now, lane.held_until) if lane.held_until is not None else now
