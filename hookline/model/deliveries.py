"""Deliveries, and the leases that let a worker send them."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState, Reason
from hookline.model.sweep import Death


class DeliveryFields(Struct, frozen=True, kw_only=True):
    """The fields that `Delivery`, `LeasedDelivery` and `DeadLetter` share."""

    app_no: int
    endpoint_no: int
    message_id: str
    event_type: str
    attempts: int  # attempts that count against `max_attempts`
    sent: int  # all attempts, including probes and attempts before a replay
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
    held: bool = False  # waits in a held lane: circuit open, endpoint paused or disabled, or Retry-After


class LeasedDelivery(DeliveryFields, frozen=True, kw_only=True):
    """A delivery that a worker has leased, with everything that the worker needs to send it."""

    delivery_id: int
    claim: int  # fencing token: every later write for this lease must name this number
    revision: int  # the endpoint's revision; see `store.catalogue.endpoints_for`
    payload: bytes
    expires_at: datetime
    claimed_at: datetime  # by the database's clock
    lease_until: datetime
    due_at: datetime
    epoch: int  # the lane's epoch at the time of the claim
    counted: bool  # the lease is included in `lane.in_flight`
    probe: bool
    trigger: int  # why it is sent. 0: the message was accepted; 1: a user asked for a replay, resend or test message
    policy: PolicyOverride | None = None
    last_delay: float = 0.0  # seconds before this attempt; decorrelated jitter computes the next delay from it
    ordering_key: str | None = None  # later deliveries with the same key wait until this delivery has ended
    trace: str | None = None  # trace context of the message


_TIMES = ("accepted_at", "expires_at", "claimed_at", "lease_until", "due_at")


def unleased(at: datetime, **given: Any) -> LeasedDelivery:
    """Return a `LeasedDelivery` that no worker has leased. The caller uses it to build or judge a request in the same
    way as a worker. Times that are not given are `at`. Other fields that are not given are 0, False or their
    default."""
    zeros = dict.fromkeys(("delivery_id", "claim", "app_no", "endpoint_no", "revision", "epoch", "trigger"), 0)
    flags = {"counted": False, "probe": False}
    return LeasedDelivery(**{**zeros, **flags, **dict.fromkeys(_TIMES, at), **given})


class ByteBudget(Struct, frozen=True, kw_only=True):
    """How many more bytes of large payloads may be in flight in one pool of slots."""

    free: float = math.inf
    by_app: Mapping[int, int] = {}  # bytes of large payloads in flight, by application


class SlotBudgets(Struct, frozen=True, kw_only=True):
    """How many of a worker's slots a lane and an application may hold, and how many they hold now.

    Lanes whose endpoints answer share one pool of slots. All other lanes share the pool of silent lanes.
    """

    lane_limit: int  # maximum number of slots that one lane may hold
    held_by_lane: Mapping[int, int] = {}  # requests in flight, by endpoint
    app_part: float = 1.0  # maximum part of a pool that one application may hold, from 0 to 1; 1 is no limit
    held_by_app: Mapping[int, int] = {}  # requests in flight to endpoints that answer, by application
    # Endpoints that answer, each with the maximum number of slots that its lane may hold. None: every endpoint counts
    # as one that answers, and each lane may hold `lane_limit` slots.
    windows: Mapping[int, int] | None = None
    silent_windows: Mapping[int, int] = {}  # silent endpoints, each with the maximum number of slots of its lane
    first_window: int = 1  # maximum slots of a lane in neither `windows` nor `silent_windows`; it counts as silent
    silent_free: int = 0  # free slots of the pool of silent lanes
    silent_starts: int = sys.maxsize  # requests that this claim may start to any silent lanes
    recent_starts: int = 0  # additional requests that this claim may start to silent lanes with recent wake tokens
    silent_by_app: Mapping[int, int] = {}  # requests in flight to silent lanes, by application
    waiting: int = 0  # lanes that still wait because an earlier claim had no slots for them
    bytes: ByteBudget = ByteBudget()  # for large payloads to endpoints that answer
    silent_bytes: ByteBudget = ByteBudget()  # for large payloads to silent lanes
    heavy: Collection[int] = ()  # endpoints whose next delivery has a large payload that did not fit an earlier claim


class Offer(Struct, kw_only=True):
    """Slots that a worker reserved for the deliveries of messages that are being accepted. The store may lease these
    deliveries to the worker at once, in the transaction that accepts the messages."""

    reserved: Mapping[int, int] = {}  # number of slots, by endpoint: enough for one delivery of each message
    jobs: list[LeasedDelivery] = []  # the deliveries that the store leased
    took: float = 0.0  # seconds that PostgreSQL ran the statement, without its COMMIT


class ClaimBatch(Struct, frozen=True, kw_only=True):
    jobs: list[LeasedDelivery]
    now: datetime
    next_at: datetime | None  # time of the earliest remaining wake token, possibly past; only set if there are no jobs
    # Endpoints with deliveries that the claim did not lease, because a budget was used up. The value is the application
    # if the budget of the application was used up, or None if it was the budget of the lane.
    refused: dict[int, int | None] = {}
    heavy: Collection[int] = ()  # endpoints of `refused` that wait because too many bytes are in flight
    deaths: tuple[Death, ...] = ()  # deliveries that were due, but their time budget was over
