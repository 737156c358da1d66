"""Outbox rows that applications wrote in their own transactions, and the relay's reports about them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline.model.messages import EventFields


class OutboxRow(EventFields, frozen=True, kw_only=True):
    """One event in an outbox of an application's database."""

    id: int  # number of the row in that outbox
    app: str  # id or uid of the Hookline application
    payload: bytes
    event_id: str | None  # the same in every copy of the event; only rows in Hookline's own database may have None
    org_id: str | None = None
    age: float = 0.0  # seconds since it was published, by the clock of its own database
    fault: str | None = None  # why the row could not be read; the relay will set it aside


class OutboxPlace(Struct, frozen=True, kw_only=True):
    """The last row that the relay copied from the outbox of a SQLite file.

    After a restore of the file, another row may have the same number. The uid shows that it is another row.
    """

    row_id: int
    row_uid: str


class RelayReport(Struct, frozen=True, kw_only=True):
    relayed: int = 0
    repeated: int = 0  # rows that were copied before: a message with their event id exists
    set_aside: int = 0  # rows that cannot become messages; they are stored with a reason
    reasons: tuple[str, ...] = ()  # the first few reasons for setting rows aside
    more: bool = False  # rows may be left in the outbox

    @property
    def gone(self) -> int:
        """Return the number of rows that left the outbox."""
        return self.relayed + self.repeated + self.set_aside


class SetAside(Struct, frozen=True, kw_only=True):
    """An outbox row that could not become a message."""

    id: int
    org_id: str | None
    app: str
    event_type: str
    event_id: str | None
    payload: bytes
    reason: str
    source: str | None  # the database that the row was copied from; None means Hookline's own
    created_at: datetime
    set_aside_at: datetime | None


class OutboxView(Struct, frozen=True, kw_only=True):
    """The outbox of Hookline's database, as `doctor` shows it."""

    waiting: int  # rows not relayed yet, counted up to a limit
    oldest: datetime | None  # when the oldest waiting row was written
    set_aside: int  # rows that could not become messages, counted up to a limit
