"""Deliveries, and the lease under which a worker sends one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState, Reason


class DeliveryFields(Struct, frozen=True, kw_only=True):
    """The fields that a delivery has in each of its forms: as it is shown, leased, and dead."""

    app_no: int
    endpoint_no: int
    message_id: str
    event_type: str
    attempts: int  # attempts that count against `max_attempts`
    sent: int  # all attempts, including probes and those before a replay
    accepted_at: datetime


class Delivery(DeliveryFields, frozen=True, kw_only=True):
    """One message to one endpoint, in any state."""

    id: int
    state: DeliveryState
    endpoint_id: str
    due_at: datetime | None = None
    expires_at: datetime | None = None
    finished_at: datetime | None = None
    reason: Reason | None = None
    detail: str | None = None
    held: bool = False  # it waits and its lane is held back: circuit open, endpoint paused or disabled, or Retry-After


class LeasedDelivery(DeliveryFields, frozen=True, kw_only=True):
    """A delivery that a worker has leased, with everything that it needs to send it."""

    delivery_id: int
    claim: int  # fencing token: every later write about this lease must name it
    revision: int  # the endpoint's revision; see `store.catalogue.endpoints_for`
    payload: bytes
    expires_at: datetime
    claimed_at: datetime  # by the database's clock
    lease_until: datetime
    due_at: datetime
    epoch: int  # the lane's epoch at the time of the claim
    counted: bool  # the lease is included in `lane.in_flight`
    probe: bool
    trigger: int  # 0: scheduled; 1: sent again by a person
    policy: PolicyOverride | None = None
    last_delay: float = 0.0  # seconds before this retry; decorrelated jitter computes the next delay from it
    ordering_key: str | None = None  # deliveries with the same key wait until this one has ended
    trace: str | None = None  # trace context of the message


class SlotBudgets(Struct, frozen=True, kw_only=True):
    """How many of a worker's slots a lane and an application may hold, and how many they hold now."""

    lane_limit: int  # slots that one lane may hold
    held_by_lane: Mapping[int, int] = {}  # requests in flight, by endpoint
    app_part: float = 1.0  # part of the slots that one application may hold alone; 1: there is no limit
    held_by_app: Mapping[int, int] = {}  # requests in flight, by application
    waiting: int = 0  # lanes that a budget refused before, and that still wait


class ClaimBatch(Struct, frozen=True, kw_only=True):
    jobs: list[LeasedDelivery]
    now: datetime
    next_at: datetime | None  # time of the earliest remaining wake token, possibly past; only set if there are no jobs
    # Endpoints that a full budget of slots refused: the application whose budget it was, or None for the lane's own.
    refused: dict[int, int | None] = {}
