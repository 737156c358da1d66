"""What died while it waited, and what a sweep did."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline.model.lanes import LaneEvent
from hookline.model.states import Reason


class Death(Struct, frozen=True, kw_only=True):
    """Of a delivery that died while it waited."""

    delivery_id: int
    message_id: str
    endpoint_no: int
    event_type: str
    reason: Reason
    sent: int  # attempts that were made before
    accepted_at: datetime
    died_at: datetime
    manual: bool = False  # it was sent again by hand
    trace: str | None = None  # of the message


class SweepReport(Struct, frozen=True, kw_only=True):
    leases: int = 0  # expired, back to pending
    expired: int = 0  # time budget over: dead
    deleted: int = 0  # endpoint gone: dead
    retired: int = 0  # rows or partitions taken by retention
    repaired: int = 0  # lanes that would not have woken: must stay 0
    paused: int = 0
    disabled: int = 0
    events: tuple[LaneEvent, ...] = ()
    deaths: tuple[Death, ...] = ()  # one for each that expired, or whose endpoint was deleted
    dead_expired: int = 0  # of the retired: dead letters that nobody had resolved
