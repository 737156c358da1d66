"""API keys, stored answers to requests with an idempotency key, and the actors that the audit log names."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class Scope(StrEnum):
    """The permissions of an API key."""

    FULL = "full"
    PUBLISH = "publish"  # may publish messages and do nothing else
    READ = "read"


class ApiKey(Struct, frozen=True, kw_only=True):
    """An API key as it is stored. The key itself is not stored, only its hash."""

    id: str
    org_id: str
    name: str
    scope: Scope
    hint: str  # the key's last characters
    created_at: datetime
    app_id: str | None = None  # the only application that the key may access; None means all applications
    expires_at: datetime | None = None
    last_used_at: datetime | None = None  # updated at most once a minute


class NewApiKey(Struct, frozen=True, kw_only=True):
    name: str
    scope: Scope
    hash: bytes
    hint: str
    app_no: int | None = None
    expires_at: datetime | None = None


class KeptAnswer(Struct, frozen=True, kw_only=True):
    """The state of a POST with an idempotency key: claimed by this request, in progress elsewhere, or answered."""

    request: bytes  # hash of the request that first used the key
    # The fencing token with which this request stores its answer. None: another request has the key.
    claim: int | None = None
    status: int | None = None  # HTTP status of the stored answer; None if there is no answer yet
    response: bytes = b""


class ActorKind(StrEnum):
    COMMAND_LINE = "command_line"
    KEY = "key"  # an API key of the organization
    TOKEN = "token"  # noqa: S105 (the name of a kind, not a secret)
    APPLICATION_KEY = "application_key"
    APPLICATION_TOKEN = "application_token"  # noqa: S105 (the name of a kind, not a secret)
    OPERATOR = "operator"  # a person who signed in to the dashboard with a password
    PORTAL = "portal"  # a customer who uses the portal


class Actor(Struct, frozen=True, kw_only=True):
    """The person, key or token that made a change."""

    kind: ActorKind
    name: str | None = None  # name of the API key or operator
