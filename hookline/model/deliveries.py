"""One message to one endpoint, and the lease under which a worker sends it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState, Reason


class Delivery(Struct, frozen=True, kw_only=True):
    """One message to one endpoint, wherever it is kept: open, done or dead."""

    id: int
    state: DeliveryState
    app_no: int
    endpoint_no: int
    endpoint_id: str
    message_id: str
    event_type: str
    attempts: int  # that count against the budget
    sent: int  # all attempts ever made, probes and those before a replay included
    accepted_at: datetime
    due_at: datetime | None = None
    expires_at: datetime | None = None
    finished_at: datetime | None = None
    reason: Reason | None = None
    detail: str | None = None
    held: bool = False  # waiting, and its lane keeps it: circuit open, endpoint stopped, or left alone as it asked


class LeasedDelivery(Struct, frozen=True, kw_only=True):
    """A delivery that this worker has leased, with all that is needed to send it."""

    delivery_id: int
    claim: int  # the fence: every later write names it
    message_id: str
    app_no: int
    endpoint_no: int
    revision: int  # of the endpoint; see `Store.endpoints_for`
    event_type: str
    payload: bytes
    attempts: int
    sent: int
    accepted_at: datetime
    expires_at: datetime
    claimed_at: datetime  # the database's clock
    lease_until: datetime
    due_at: datetime
    epoch: int  # of the lane when it was claimed
    counted: bool  # adds to `lane.in_flight`
    probe: bool
    trigger: int  # 0 scheduled, 1 manual
    policy: PolicyOverride | None = None
    last_delay: float = 0.0  # of the retry that led here; decorrelated jitter grows from it
    ordering_key: str | None = None  # of the queue that waits behind it
    trace: str | None = None  # of the message


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
    next_at: datetime | None  # the earliest token that is left, only looked up when there are no jobs; it may be due
    refused: dict[
        int, int | None
    ] = {}  # endpoints that a full budget of slots refused: the application's number, or None for the lane's own
