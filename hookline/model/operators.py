"""Who signs in to the pages, who guesses, and who did what. Frozen; the store keeps them, `dashboard/sessions.py` decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from hookline.errors import InvalidInput
from hookline.model import Actor, Scope

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._@+-]{0,98}[a-z0-9])?", re.A)


class Operator(Struct, frozen=True, kw_only=True):
    """A person who signs in with a password."""

    name: str  # one of its kind in the whole deployment
    org_id: str
    role: Scope  # full | read
    password: str  # as `passwords.hashed` made it; never the password
    created_at: datetime

    def __repr__(self) -> str:
        return f"Operator(name={self.name!r}, org_id={self.org_id!r}, role={self.role.value!r})"


def operator_name(text: str) -> str:
    """As it is kept, however it was typed."""
    name = text.strip().lower()
    if _NAME.fullmatch(name) is None:
        raise InvalidInput("an operator's name takes letters, digits and . _ @ + - between them: ada, ada@example.com")
    return name


class NewSession(Struct, frozen=True, kw_only=True):
    """One of `operator`, `key_id` and `token` says by what they signed in."""

    hash: bytes  # of what the cookie holds
    org_id: str
    role: Scope
    lifetime: float  # seconds; never longer than the token's
    app_no: int | None = None  # the portal: that application and nothing else
    operator: str | None = None
    password: str | None = None  # the operator's, as `Operator.password` was when theirs was found to be right
    key_id: str | None = None
    token: bytes | None = None  # its hash
    token_issued_at: datetime | None = None


class Session(Struct, frozen=True, kw_only=True):
    """One that is good now: whatever it was begun with is still good too."""

    hash: bytes
    org_id: str
    role: Scope  # an operator's is as it is now
    created_at: datetime
    expires_at: datetime
    app_id: str | None = None
    operator: str | None = None
    key_id: str | None = None
    key_name: str | None = None
    token: bytes | None = None


class Guesses(Struct, frozen=True, kw_only=True):
    """Wrong passwords, keys or tokens of one name, or from one address."""

    failures: int
    since: datetime  # the first of these
    locked_until: datetime | None = None


Lock = Callable[[Guesses | None, datetime], Guesses]  # what is known of it, and now → with one guess more


class NewAuditEntry(Struct, frozen=True, kw_only=True):
    """Somebody did something by hand."""

    org_id: str
    actor: Actor
    action: str  # `endpoint.pause`
    subject: str = ""  # the id of what it was done to
    app_id: str | None = None
    detail: str = ""  # for people; never a secret
    address: str = ""  # where the request came from; empty: it was the command line


# What a change of the store is to be noted as, made from its result; None: nothing changed, so nothing is noted. It must be pure:
# a transaction that lost a deadlock asks for it again.
Note = Callable[[T], NewAuditEntry | None]


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
