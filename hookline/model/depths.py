"""How much is open, now."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class Backlog(Struct, frozen=True, kw_only=True):
    """What waits in the lanes of one organization or application. Deliveries are counted up to a bound."""

    lanes: int
    held_lanes: int
    waiting: int  # in lanes that are not held back, due or not
    held: int  # in those that are
    oldest_due: datetime | None  # of those that wait and are not held back


class Counts(Struct, frozen=True, kw_only=True):
    """Open deliveries by state, dead letters, lanes by circuit."""

    pending: int
    scheduled: int
    queued: int
    delivering: int
    dead: int
    lanes_open: int
    oldest_due: datetime | None


class Depths(Struct, frozen=True, kw_only=True):
    """How much there is of everything that is open, at one instant: for metrics, alerts and `top`.

    A lane is held back while it is paused or disabled, while a Retry-After holds it, and while its circuit is open or probed.
    """

    at: datetime  # by the database's clock
    seconds: float  # that the counting took
    states: dict[str, int]  # open deliveries: pending, scheduled, delivering, queued
    due: int  # of those that wait: due by now, in lanes that are not held back
    oldest_due: datetime | None  # of these
    held: int  # that wait in lanes that are held back, due or not
    dead: dict[str, int]  # unresolved dead letters, by reason
    circuits: dict[str, int]  # of lanes that are active: closed, open, half_open, recovering
    lanes: dict[str, int]  # paused, disabled, held (by a Retry-After), slowed; a lane may be several of these
    outbox_waiting: int  # of this database; counted up to a bound, as those set aside are
    outbox_oldest: datetime | None  # of those that wait
    outbox_set_aside: int
    alerts: dict[str, dict[str, int]]  # that fire: by name and severity

    @property
    def backlog_age(self) -> float:
        """Seconds that the oldest of those that are due waits already."""
        return 0.0 if self.oldest_due is None else max(0.0, (self.at - self.oldest_due).total_seconds())

    @property
    def outbox_lag(self) -> float:
        """Seconds that the oldest outbox row waits already."""
        return 0.0 if self.outbox_oldest is None else max(0.0, (self.at - self.outbox_oldest).total_seconds())
