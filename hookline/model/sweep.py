"""The report of a sweep, and the deliveries that died while they waited."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline.model.lanes import LaneEvent
from hookline.model.states import Reason


class Death(Struct, frozen=True, kw_only=True):
    """A delivery that died while it waited, without a new attempt."""

    delivery_id: int
    message_id: str
    endpoint_no: int
    event_type: str
    reason: Reason
    sent: int  # number of attempts before the delivery died
    accepted_at: datetime
    died_at: datetime
    manual: bool = False  # a person had replayed or resent the delivery
    trace: str | None = None  # trace context of the message


class SweepReport(Struct, frozen=True, kw_only=True):
    leases: int = 0  # deliveries that became pending again because their lease had expired
    retired: int = 0  # rows or partitions that retention deleted
    repaired: int = 0  # lanes with due deliveries but without a wake token; a number above 0 means a bug
    paused: int = 0
    disabled: int = 0
    events: tuple[LaneEvent, ...] = ()
    deaths: tuple[Death, ...] = ()
    set_back: float = 0.0  # seconds by which the database's clock was set back
    moved: int = 0  # deliveries whose times were moved back with the clock
    dead_expired: int = 0  # unresolved dead letters that retention deleted

    @property
    def expired(self) -> int:
        """Number of deliveries that died because their time budget ended."""
        return sum(death.reason == Reason.BUDGET_EXHAUSTED for death in self.deaths)

    @property
    def deleted(self) -> int:
        """Number of deliveries that died because their endpoint was deleted."""
        return sum(death.reason == Reason.ENDPOINT_DELETED for death in self.deaths)
