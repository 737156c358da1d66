"""Operators of the dashboard, their sessions and their failed logins. The rules for sign-in are in
`dashboard/sessions.py`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from hookline.errors import InvalidInput
from hookline.model.actors import Scope

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._@+-]{0,98}[a-z0-9])?", re.A)


class Operator(Struct, frozen=True, kw_only=True):
    """A person who signs in to the dashboard with a password."""

    name: str  # unique in the whole deployment
    org_id: str
    role: Scope  # full or read
    password: str  # the hash that `passwords.hashed` returned, never the password itself
    created_at: datetime

    def __repr__(self) -> str:
        return f"Operator(name={self.name!r}, org_id={self.org_id!r}, role={self.role.value!r})"


def operator_name(text: str) -> str:
    """Return the normalized form of an operator's name: lower case, without surrounding spaces."""
    name = text.strip().lower()
    if _NAME.fullmatch(name) is None:
        advice = "use letters, digits and . _ @ + - between them, such as ada or ada@example.com"
        raise InvalidInput(f"invalid operator name: {advice}")
    return name


class SessionFields(Struct, frozen=True, kw_only=True):
    """Fields of a dashboard session. One of `operator`, `key_id` and `token` is set: the credential of the
    sign-in."""

    hash: bytes  # hash of the cookie's value
    org_id: str
    role: Scope  # what the session may do; for an operator, their current role
    operator: str | None = None
    key_id: str | None = None
    token: bytes | None = None  # hash of the API token, portal link or sign-in link


class NewSession(SessionFields, frozen=True, kw_only=True):
    """A dashboard session to create."""

    # Seconds. If the person signed in with an API token or an API key, the session never lasts longer than that token
    # or key is valid.
    lifetime: float
    app_no: int | None = None  # the only application that a portal session may access
    password: str | None = None  # `Operator.password` at the time of the login; a later change ends the session
    token_issued_at: datetime | None = None


class Session(SessionFields, frozen=True, kw_only=True):
    """A valid dashboard session. The credential used to sign in is still valid too."""

    created_at: datetime
    expires_at: datetime
    app_id: str | None = None
    key_name: str | None = None


class Guesses(Struct, frozen=True, kw_only=True):
    """Failed logins with one name or from one address."""

    failures: int
    since: datetime  # time of the first failed login
    locked_until: datetime | None = None


Lock = Callable[[Guesses | None, datetime], Guesses]  # (failed logins before, now) → failed logins including this one
