"""The audit log: who did what by hand."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline.model import Actor


class NewAuditEntry(Struct, frozen=True, kw_only=True):
    """Somebody did something by hand."""

    org_id: str
    actor: Actor
    action: str  # `endpoint.pause`
    subject: str = ""  # the id of what it was done to
    app_id: str | None = None
    detail: str = ""  # for people; never a secret
    address: str = ""  # where the request came from; empty: it was the command line


class AuditEntry(NewAuditEntry, frozen=True, kw_only=True):
    id: int
    at: datetime


class AuditFilter(Struct, frozen=True, kw_only=True):
    """All of the given fields must match."""

    org_id: str
    app_id: str | None = None
    action: str | None = None
    actor: str | None = None  # its name, or its kind
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None
