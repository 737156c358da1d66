"""What the real rules decide in the situations of the model. The model has small whole numbers for times, and 0 is now.

The model leaves out throttles, pace, Retry-After and the shares of applications.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from hookline.model import lanes
from hookline.model.deliveries import SlotBudgets, unleased
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, EndpointStatus, Health
from hookline.rules.claim.budgets import Slots
from hookline.rules.claim.division import Division
from hookline.rules.lane.admission import Admission, limited
from hookline.rules.lane.circuit import LaneOutcome, fold
from hookline.store.postgres.claim import Claim, _checked_again

NOW, TICK = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC), timedelta(seconds=100)
LEASE = 2  # ticks
APP = 7
POLICY = CircuitPolicy(
    threshold=1, spread=0.0, cooldown=100.0, cooldown_cap=100.0, recovery_window=1, recovery_step=0.0, recovery_done=1
)


class Longest(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


class Lane(NamedTuple):
    """The columns of a lane's row that the model has. Epochs are relative: the epoch of the row is 0."""

    limit: int | None = None  # `concurrency`
    status: EndpointStatus = EndpointStatus.ACTIVE
    circuit: Circuit = Circuit.CLOSED
    epoch: int = 0
    failures: int = 0
    probe_at: int | None = None
    window: int | None = None
    in_flight: int = 0
    waiting_floor: int | None = None

    @property
    def healthy(self) -> bool:
        return self.circuit == Circuit.CLOSED and not self.failures


class Token(NamedTuple):
    """A wake token. `seen` has a bit for each worker whose running claim has read the token."""

    lane: int
    at: int
    floor: int
    seen: int = 0


class Outcome(NamedTuple):
    """A recorded result of a delivery, or a lost or released lease."""

    health: Health
    epoch: int
    counted: bool
    probe: bool


class Decided(NamedTuple):
    """One lane after a claim, and its next wake token."""

    lane: Lane
    token: Token | None


# ── slots ──


def _slots(total: int, held: Sequence[int]) -> Slots:
    slots = Slots(total, lane_limit=total, app_part=1.0, silent=total, max_bytes=1)
    for no, count in enumerate(held):
        job = unleased(NOW, endpoint_no=no, app_no=APP, message_id="", event_type="", payload=b"", attempts=0, sent=0)
        slots.take([job])
        slots.give_back(job, answered=True)
        slots.take([job] * count)
    return slots


@cache
def wanted(total: int, held: tuple[int, ...], *, accepts: bool) -> int:
    """Return how many slots a claim may take. `held` has the slots that each lane holds."""
    slots = _slots(total, held)
    if accepts:
        slots.accepted_at = 0.0
    with slots.claim(0.0) as want:
        return want


@cache
def reserved(total: int, held: tuple[int, ...], claiming: int) -> tuple[int, ...]:
    """Return the slots that one message reserves in each lane while a claim may take `claiming` slots."""
    slots = _slots(total, held)
    slots._claiming = claiming
    offer = slots.reserve(APP, dict.fromkeys(range(len(held)), 1), 0.0)
    return tuple(offer.get(no, 0) for no in range(len(held)))


# ── claim ──


class Terms(NamedTuple):
    """What a claim knows before it takes deliveries."""

    lanes: tuple[tuple[int, Lane], ...]
    now: int
    want: int
    held: tuple[int, ...]  # slots that each lane holds
    share: int  # slots that a lane may hold


@cache
def admissions(terms: Terms) -> list[Admission]:
    return _divided(terms)[1]


@cache
def after_claim(terms: Terms, taken: tuple[int, ...], left: tuple[int | None, ...]) -> tuple[Decided, ...]:
    """Return each lane after a claim, with its next wake token. `taken` has the number of leased deliveries by lane, and
    `left` the earliest due time of the others that the claim has seen."""
    division, admitted = _divided(terms)
    for (no, lane), admission, count in zip(terms.lanes, admitted, taken, strict=True):
        division.take(_real(no, lane), count - admission.quota)
    return tuple(map(_settled, [division] * len(admitted), terms.lanes, admitted, taken, left))


def _divided(terms: Terms) -> tuple[Division, list[Admission]]:
    budgets = SlotBudgets(lane_limit=terms.share, held_by_lane=dict(enumerate(terms.held)))
    division = Division(now=_at(terms.now), want=terms.want, budgets=budgets, policy=POLICY)
    return division, division.admissions([_real(no, lane) for no, lane in terms.lanes])


def _settled(
    division: Division, found: tuple[int, Lane], admission: Admission, taken: int, left: int | None
) -> Decided:
    """Settle one lane as `claim_take` and `Claim._settle` do together."""
    no, lane = found
    claim = cast(Claim, SimpleNamespace(_options=SimpleNamespace(lease=LEASE * TICK.total_seconds())))
    floor = None if left is None else _at(left)
    after, wake = Claim._settle(claim, division, _real(no, lane), admission, taken, floor, None)
    if wake is None and floor is not None and not _checked_again(admission) and admission.rest_at is not None:
        wake = (no, max(floor, admission.rest_at), floor)
    return Decided(_small(after, lane.limit), None if wake is None else Token(no, _ticks(wake[1]), _ticks(wake[2])))


# ── record ──


@cache
def folded(lane: Lane, no: int, outcome: Outcome, now: int) -> Decided:
    """Return the lane after an outcome, with the wake token that follows."""
    health, epoch, counted, probe = outcome
    real = LaneOutcome(health=health, epoch=epoch, counted=counted, probe=probe)
    after = fold(_real(no, lane), [real], now=_at(now), policy=POLICY, chance=Longest())
    if after.wake_at is None or after.wake_floor is None:
        return Decided(_small(after.lane, lane.limit), None)
    return Decided(_small(after.lane, lane.limit), Token(no, _ticks(after.wake_at), _ticks(after.wake_floor)))


@cache
def restricted(lane: Lane) -> bool:
    return limited(_real(0, lane), POLICY)


# ── between the model and the rules ──


def _at(ticks: int) -> datetime:
    return NOW + ticks * TICK


def _ticks(at: datetime) -> int:
    """Return the tick, rounded up: a wake token is never earlier in the model than in reality."""
    return -((NOW - at) // TICK)


@cache
def _real(no: int, lane: Lane) -> lanes.Lane:
    times: dict[str, Any] = {
        "probe_at": None if lane.probe_at is None else _at(lane.probe_at),
        "waiting_floor": None if lane.waiting_floor is None else _at(lane.waiting_floor),
        "failing_since": _at(-1) if lane.failures else None,
        "window_at": None if lane.window is None else _at(-1),
    }
    numbers: dict[str, Any] = {
        "epoch": lane.epoch,
        "failures": lane.failures,
        "window": lane.window,
        "in_flight": lane.in_flight,
    }
    kept: dict[str, Any] = {"status": lane.status, "circuit": lane.circuit, "concurrency": lane.limit}
    return lanes.Lane(endpoint_no=no, app_no=APP, **kept, **numbers, **times)


def _small(lane: lanes.Lane, limit: int | None) -> Lane:
    assert lane.pace is None
    return Lane(
        limit,
        lane.status,
        lane.circuit,
        lane.epoch,
        lane.failures,
        None if lane.probe_at is None else _ticks(lane.probe_at),
        lane.window,
        lane.in_flight,
        None if lane.waiting_floor is None else _ticks(lane.waiting_floor),
    )
