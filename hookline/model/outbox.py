"""What the senders' own transactions wrote, and what the relay made of it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline.model.policy import PolicyOverride


class OutboxRow(Struct, frozen=True, kw_only=True):
    """What an application's transaction wrote to an outbox of its own database."""

    id: int  # there
    app: str  # id or uid
    event_type: str
    payload: bytes
    event_id: str | None  # a second copy is known by it; None only in Hookline's own database
    org_id: str | None = None
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    policy: PolicyOverride | None = None
    trace: str | None = None
    fault: str | None = None  # what could not be read of it: it will be set aside


class OutboxPlace(Struct, frozen=True, kw_only=True):
    """How far the outbox of a SQLite file has been copied. The uid tells that row from another of the same number."""

    row_id: int
    row_uid: str


class RelayReport(Struct, frozen=True, kw_only=True):
    relayed: int = 0
    repeated: int = 0  # the event id was taken already: harmless
    set_aside: int = 0  # rows that cannot become messages; kept with their reason
    reasons: tuple[str, ...] = ()  # the first few of them
    more: bool = False  # something may be left: it is known to be, or it could not be looked at now

    @property
    def gone(self) -> int:
        """Rows that left the outbox's queue."""
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
    source: str | None  # the database that it was copied from; None: this one
    created_at: datetime
    set_aside_at: datetime | None


class OutboxView(Struct, frozen=True, kw_only=True):
    """The outbox of this database, as `doctor` sees it."""

    waiting: int  # counted up to a bound
    oldest: datetime | None  # of those that wait
    set_aside: int  # counted up to a bound
