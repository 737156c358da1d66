"""The circuit breaker of a lane: how outcomes change its state. The store calls it while it holds the lane's row lock.

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

from hookline.model.lanes import Lane, LaneEvent, LaneEventKind
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, EndpointStatus, Health
from hookline.rules.lane import pace

# A Retry-After of at most `A_MOMENT` becomes a timeline event only if the lane was not held during the last `SELDOM`.
A_MOMENT = timedelta(seconds=5)
SELDOM = timedelta(seconds=60)


class LaneOutcome(Struct, frozen=True, kw_only=True):
    """The effect of one recorded result, or of one lost lease, on its lane."""

    health: Health
    epoch: int  # the lane's epoch at the time of the claim
    claimed_at: datetime | None = None  # when the delivery was claimed; None counts as now
    counted: bool = False  # the claim added the delivery to `lane.in_flight`, so this outcome subtracts it again
    probe: bool = False
    hold_until: datetime | None = None
    gone: bool = False
    slow_down: bool = False  # the endpoint asks for a lower rate
    cause: str = ""  # a message for operators


class Fold(Struct, frozen=True, kw_only=True):
    lane: Lane
    events: tuple[LaneEvent, ...] = ()
    wake_at: datetime | None = None  # insert a wake token for this time
    wake_floor: datetime | None = None  # earliest due time of the deliveries that the wake token announces


def fold(
    lane: Lane, outcomes: Sequence[LaneOutcome], *, now: datetime, policy: CircuitPolicy, chance: random.Random
) -> Fold:
    """Return the lane after these outcomes, which are in the order of completion."""
    step = _Step(now, policy, chance)
    before = lane
    for outcome in outcomes:
        lane = step.apply(lane, outcome)
    events = tuple(step.events)
    # A delivery that was included in `lane.in_flight` has ended, or a success ended the failures that had limited the
    # lane.
    freed = any(outcome.counted for outcome in outcomes) or (before.failures > 0 and not lane.failures)
    if lane.waiting_floor is None or not (freed or events):
        return Fold(lane=lane, events=events)
    if lane.circuit == Circuit.HALF_OPEN and lane.in_flight:
        # The lane waits for the end of its probe, not of the request that has ended. It already has a wake token for
        # `probe_at`. Without `waiting_floor`, the end of the probe would not wake it.
        return Fold(lane=lane, events=events)
    woken = replace(lane, waiting_floor=None)
    return Fold(lane=woken, events=events, wake_at=_wake_at(lane, now), wake_floor=lane.waiting_floor)


def reset(lane: Lane, *, now: datetime, cause: str) -> Fold:
    """Return the lane after an operator reset it: circuit, pace and Retry-After are cleared, configured limits stay.

    Requests that are still in flight belong to the previous epoch, so their outcomes do not affect the circuit. A
    `Retry-After` or a 410 in such a response still takes effect. The caller must wake the lane.
    """
    clean = replace(
        pace.without_pace(lane),
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
    """Return the lane after an operator opened its circuit. Nothing is sent until the given time, or for the usual
    cooldown. Then a probe is sent.

    The failure count restarts, because the lane does not fail while nothing is sent. The cooldown does not grow. If
    a probe is in flight now, the next probe is not sent before the lease of that probe ends. The caller must wake
    the lane.
    """
    step = _Step(now, policy, chance)
    opened = step.open(lane, LaneEventKind.CIRCUIT_OPENED, cause)
    busy = lane.probe_at if lane.circuit == Circuit.HALF_OPEN else None
    probe_at = max(until or opened.probe_at or now, busy or now)
    after = replace(opened, failures=0, failing_since=None, trips=max(1, lane.trips), probe_at=probe_at)
    return Fold(lane=after, events=tuple(step.events))


def close_by_hand(lane: Lane, *, now: datetime, cause: str, policy: CircuitPolicy, chance: random.Random) -> Fold:
    """Return the lane after an operator closed its circuit: it recovers as after a successful probe. Other limits
    stay.

    The caller must wake the lane.
    """
    if lane.circuit not in (Circuit.OPEN, Circuit.HALF_OPEN):
        return Fold(lane=lane)
    step = _Step(now, policy, chance)
    after = step.good(replace(lane, circuit=Circuit.HALF_OPEN), cause)
    return Fold(lane=after, events=tuple(step.events))


class _Step:
    """The constant inputs of one `fold`, and the events that its outcomes caused."""

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
            self._add_event(lane, LaneEventKind.ENDPOINT_DISABLED, outcome.cause)
            lane = replace(lane, status=EndpointStatus.DISABLED)
        # A request of another epoch was claimed before the circuit last changed. Its outcome says nothing about the
        # present health of the endpoint.
        if outcome.epoch != lane.epoch:
            return lane
        match outcome.health:
            case Health.GOOD:
                return self.good(self._speed_up(lane, outcome), outcome.cause)
            case Health.BAD if outcome.slow_down and self._can_slow(lane):
                return self._slow(lane, outcome)
            case Health.BAD:
                return self._bad(lane, outcome.cause)
            case Health.NONE:
                return self._neutral(lane, outcome)

    def _hold(self, lane: Lane, until: datetime, cause: str) -> Lane:
        held = lane.held_until
        if until <= self.now or (held is not None and until <= held):
            return lane
        if held is None or self._is_event(held, until):
            self._add_event(lane, LaneEventKind.LANE_HELD, cause)
        return replace(lane, held_until=until)

    def _is_event(self, held: datetime, until: datetime) -> bool:
        """Return whether a Retry-After that holds the lane until `until` becomes a timeline event. `held` is the end of
        the previous hold.

        Repeated short holds would fill the timeline. If the previous hold ended `SELDOM` ago or earlier, the new hold
        is always an event. Otherwise it is an event only if the previous hold has ended or ends within `A_MOMENT`, and
        `until` is more than `A_MOMENT` after both now and `held`.
        """
        if held <= self.now - SELDOM:
            return True
        return held <= self.now + A_MOMENT and until > max(held, self.now) + A_MOMENT

    def _can_slow(self, lane: Lane) -> bool:
        """Return whether a response that asks for a lower rate, such as a 429, lowers the pace. If not, it counts as a
        failure. Such a response to a probe always counts as a failure."""
        return lane.circuit in (Circuit.CLOSED, Circuit.RECOVERING) and pace.can_slow(lane, self.policy)

    def _slow(self, lane: Lane, outcome: LaneOutcome) -> Lane:
        if lane.pace is None:
            self._add_event(lane, LaneEventKind.LANE_SLOWED, outcome.cause)
        return pace.lower_pace(lane, now=self.now, claimed_at=outcome.claimed_at, policy=self.policy)

    def _speed_up(self, lane: Lane, outcome: LaneOutcome) -> Lane:
        if lane.circuit == Circuit.HALF_OPEN:
            return lane  # one success after an outage does not show which rate the endpoint can handle
        after = pace.raise_pace(lane, now=self.now, claimed_at=outcome.claimed_at, policy=self.policy)
        if lane.pace is not None and after.pace is None:
            self._add_event(lane, LaneEventKind.LANE_AT_SPEED, outcome.cause)
        return after

    def _neutral(self, lane: Lane, outcome: LaneOutcome) -> Lane:
        """Handle an outcome that says nothing about health: released, lost or ambiguous. If the attempt was a probe, a
        new probe may start at once."""
        if outcome.probe and lane.circuit == Circuit.HALF_OPEN:
            return replace(lane, circuit=Circuit.OPEN, probe_at=self.now, epoch=lane.epoch + 1)
        return lane

    def good(self, lane: Lane, cause: str) -> Lane:
        if lane.failures or lane.failing_since is not None:
            lane = replace(lane, failures=0, failing_since=None)
        match lane.circuit:
            case Circuit.HALF_OPEN:
                self._add_event(lane, LaneEventKind.CIRCUIT_RECOVERING, cause)
                lane = pace.pace_after_recovery(lane, now=self.now)
                window = self.policy.recovery_window
                return self._change_circuit(lane, Circuit.RECOVERING, window=window, window_at=self.now)
            case Circuit.RECOVERING:
                return self._widen(lane, cause)
            case _:
                return lane

    def _widen(self, lane: Lane, cause: str) -> Lane:
        """Double the window, which is the maximum number of requests in flight while the circuit recovers. If the
        window would then exceed `recovery_done`, close the circuit instead. Do neither until `recovery_step` seconds
        after the window last changed."""
        window, since = lane.window or self.policy.recovery_window, lane.window_at or self.now
        if (self.now - since).total_seconds() < self.policy.recovery_step:
            return lane
        if window * 2 <= self.policy.recovery_done:
            return replace(lane, window=window * 2, window_at=self.now)
        self._add_event(lane, LaneEventKind.CIRCUIT_CLOSED, cause)
        top = None if lane.pace is None else lane.pace_top
        return replace(self._change_circuit(lane, Circuit.CLOSED), trips=0, opened_at=None, pace_top=top)

    def _bad(self, lane: Lane, cause: str) -> Lane:
        first = lane.failing_since or self.now
        if not lane.failures:
            lane = pace.remember_rate(lane, self.policy)
        lane = replace(lane, failures=lane.failures + 1, failing_since=first)
        if lane.circuit == Circuit.OPEN:
            return lane
        if lane.circuit == Circuit.HALF_OPEN:
            return self.open(lane, LaneEventKind.CIRCUIT_PROBE_FAILED, cause)
        # Shrink the window only after several failures in a row: more than half of the threshold. If each failure
        # shrank it, an endpoint with 5 % failures would never finish recovering.
        if lane.window is not None and 2 * lane.failures > self.policy.threshold:
            lane = replace(lane, window=max(1, lane.window // 2), window_at=self.now)
        spread = (self.now - first).total_seconds()
        if lane.failures >= self.policy.threshold and spread >= self.policy.spread:
            return self.open(self._after_failure(lane, cause), LaneEventKind.CIRCUIT_OPENED, cause)
        return lane

    def _after_failure(self, lane: Lane, cause: str) -> Lane:
        after = pace.pace_after_failure(lane, now=self.now, policy=self.policy)
        if lane.pace is None and after.pace is not None:
            self._add_event(lane, LaneEventKind.LANE_SLOWED, cause)
        return after

    def open(self, lane: Lane, kind: LaneEventKind, cause: str) -> Lane:
        self._add_event(lane, kind, cause)
        wait = timedelta(seconds=cooldown(lane.trips, self.policy, self.chance))
        lane = self._change_circuit(lane, Circuit.OPEN, probe_at=self.now + wait)
        return replace(lane, trips=lane.trips + 1, opened_at=lane.opened_at or self.now)

    def _change_circuit(self, lane: Lane, circuit: Circuit, **limits: object) -> Lane:
        """Change the circuit's state and raise the epoch. Set `probe_at`, `window` and `window_at` to the values in
        `limits`, or to None if `limits` has no value. The lane's throttle, concurrency and pace stay."""
        unlimited: dict[str, object] = {"probe_at": None, "window": None, "window_at": None}
        tat = None if lane.throttle_rate is None and lane.pace is None else lane.tat
        return replace(lane, circuit=circuit, epoch=lane.epoch + 1, tat=tat, **unlimited | limits)

    def _add_event(self, lane: Lane, kind: LaneEventKind, cause: str) -> None:
        self.events.append(LaneEvent(endpoint_no=lane.endpoint_no, at=self.now, kind=kind, cause=cause))


def cooldown(trips: int, policy: CircuitPolicy, chance: random.Random) -> float:
    """Return the seconds until the next probe of a circuit that opens now.

    `trips` says how often the circuit opened before, since it was last closed. Each time doubles the seconds, up to
    the cap. They are then varied at random by up to 20 %, but never above the cap.
    """
    doubled = min(policy.cooldown_cap, policy.cooldown * 2.0 ** min(trips, 60))
    return chance.uniform(0.8 * doubled, min(1.2 * doubled, policy.cooldown_cap))


def _wake_at(lane: Lane, now: datetime) -> datetime:
    """Return when a claim should check this lane again."""
    if lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN) and lane.probe_at is not None:
        return max(now, lane.probe_at)
    return max(now, lane.held_until) if lane.held_until is not None else now
