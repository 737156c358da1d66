"""Who calls: API keys, kept answers, and whoever does something by hand."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class Scope(StrEnum):
    """What the holder of an API key may do."""

    FULL = "full"
    PUBLISH = "publish"  # accept messages, and nothing else
    READ = "read"


class ApiKey(Struct, frozen=True, kw_only=True):
    """As it is kept: without the key itself, which only its holder has."""

    id: str
    org_id: str
    name: str
    scope: Scope
    hint: str  # the key's last characters
    created_at: datetime
    app_id: str | None = None  # the only application that it reaches; None: all of them
    expires_at: datetime | None = None
    last_used_at: datetime | None = None  # to the minute


class NewApiKey(Struct, frozen=True, kw_only=True):
    name: str
    scope: Scope
    hash: bytes
    hint: str
    app_no: int | None = None
    expires_at: datetime | None = None


class KeptAnswer(Struct, frozen=True, kw_only=True):
    """Where a POST with an idempotency key stands: ours to do, somebody's at it, or answered."""

    request: bytes  # hash of the request that holds the key
    claim: int | None = None  # ours: do the work, and keep its answer under this fence
    status: int | None = None  # None: not answered yet
    response: bytes = b""


class ActorKind(StrEnum):
    COMMAND_LINE = "command_line"
    KEY = "key"  # an API key of the organization
    TOKEN = "token"  # noqa: S105 (the kind of thing, not one of them)
    APPLICATION_KEY = "application_key"
    APPLICATION_TOKEN = "application_token"  # noqa: S105 (likewise)
    OPERATOR = "operator"  # who signed in to the dashboard with a password
    PORTAL = "portal"  # a customer, in their portal


class Actor(Struct, frozen=True, kw_only=True):
    """Who did something by hand."""

    kind: ActorKind
    name: str | None = None  # of an API key, or an operator
