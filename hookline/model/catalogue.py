"""Organizations, applications and event types."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from hookline.model.policy import PolicyOverride


class Organization(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    created_at: datetime
    tokens_valid_after: datetime | None = None


class NewApplication(Struct, frozen=True, kw_only=True):
    name: str
    uid: str | None = None
    throttle_rate: int | None = None
    metadata: dict[str, str] = {}


class Application(NewApplication, frozen=True, kw_only=True):
    """An application as it is stored."""

    no: int  # internal key in the database; never shown to users
    id: str
    org_id: str
    created_at: datetime
    updated_at: datetime
    tokens_valid_after: datetime | None = None


class ApplicationChange(Struct, frozen=True, kw_only=True):
    """A change of an application. A field that is UNSET keeps its value."""

    name: str | UnsetType = UNSET
    uid: str | UnsetType | None = UNSET
    throttle_rate: int | UnsetType | None = UNSET
    metadata: dict[str, str] | UnsetType = UNSET


class EventType(Struct, frozen=True, kw_only=True):
    org_id: str
    name: str
    created_at: datetime
    updated_at: datetime
    description: str = ""
    archived: bool = False
    deprecated: bool = False
    schemas: dict[str, Any] | None = None
    feature_flags: tuple[str, ...] = ()
    group_name: str | None = None
    policy: PolicyOverride | None = None
    validated: bool = False  # payloads must be valid under the newest schema
