"""Current numbers of waiting deliveries and outbox rows."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class Backlog(Struct, frozen=True, kw_only=True):
    """The backlog of one organization or application. `waiting` and `held` are each counted up to a limit.

    `Depths` says when a lane is held back.
    """

    lanes: int
    held_lanes: int
    waiting: int  # deliveries in lanes that are not held back, due or not
    held: int  # deliveries in lanes that are held back, due or not
    oldest_due: datetime | None  # earliest due time of a delivery in lanes that are not held back


class Depths(Struct, frozen=True, kw_only=True):
    """Numbers of open deliveries, dead letters, lanes and outbox rows at one moment.

    A lane is held back while it is paused or disabled, waits for a Retry-After, or has an open or half-open circuit.
    """

    at: datetime  # when the counting started, by the database's clock
    seconds: float  # how long the counting took
    states: dict[str, int]  # number of open deliveries by state: pending, scheduled, delivering, queued
    due: int  # deliveries that are due, in lanes that are not held back
    oldest_due: datetime | None  # earliest due time of the deliveries that `due` counts
    held: int  # deliveries that wait in lanes that are held back, due or not
    dead: dict[str, int]  # unresolved dead letters, by reason
    circuits: dict[str, int]  # active lanes by circuit: closed, open, half_open, recovering
    lanes: dict[str, int]  # number of lanes: paused, disabled, held (by a Retry-After), slowed; a lane may count twice
    outbox_waiting: int  # rows that wait in this database's outbox, counted up to a limit
    outbox_oldest: datetime | None  # when the oldest waiting outbox row was written
    outbox_set_aside: int  # outbox rows that were set aside, counted up to a limit
    alerts: dict[str, dict[str, int]]  # number of firing alerts, by name and severity

    @property
    def backlog_age(self) -> float:
        """Seconds for which the oldest due delivery has waited."""
        return 0.0 if self.oldest_due is None else max(0.0, (self.at - self.oldest_due).total_seconds())

    @property
    def outbox_lag(self) -> float:
        """Seconds for which the oldest outbox row has waited."""
        return 0.0 if self.outbox_oldest is None else max(0.0, (self.at - self.outbox_oldest).total_seconds())
