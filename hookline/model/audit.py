"""The audit log: changes that people made, and who made them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from hookline.model.actors import Actor

T = TypeVar("T")


class NewAuditEntry(Struct, frozen=True, kw_only=True):
    """One change to write to the audit log."""

    org_id: str
    actor: Actor
    action: str  # for example `endpoint.pause`
    subject: str = ""  # id of the changed object
    app_id: str | None = None
    detail: str = ""  # a text for operators; never contains a secret
    address: str = ""  # IP address of the caller; empty for the command line


# A function that gets the result of a change and returns its audit entry, or None if nothing changed. It must have no
# side effects, because the store calls it again when it repeats a transaction after a deadlock.
Note = Callable[[T], NewAuditEntry | None]


class AuditEntry(NewAuditEntry, frozen=True, kw_only=True):
    id: int
    at: datetime


class AuditFilter(Struct, frozen=True, kw_only=True):
    """A filter for audit entries. All fields that are set must match."""

    org_id: str
    app_id: str | None = None
    action: str | None = None
    actor: str | None = None  # the actor's name or kind
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None
