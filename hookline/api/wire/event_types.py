"""The JSON shapes of event types."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, UnsetType

from hookline.api.wire.base import NAMED, In, Instant, Out, Policy, doc, fill, policy, values
from hookline.model.catalogue import EventType

Name = Annotated[str, NAMED, doc("The name, such as `order.paid`.")]
Description = Annotated[str, doc("A text for people.", maxLength=4096)]
Versions = Annotated[
    dict[str, dict[str, Any]], doc("JSON Schemas of the payload by version. The highest version is used.")
]
Flag = Annotated[str, NAMED]
Flags = Annotated[tuple[Flag, ...], doc(maxItems=100)]
Group = Annotated[str, NAMED]
Validated = Annotated[bool, doc("Refuse messages whose payload is not valid under the newest schema.")]


class EventTypePatch(In, frozen=True, kw_only=True):
    """A field that is left out stays as it is; null clears it."""

    description: Description | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    deprecated: bool | UnsetType = UNSET
    schemas: Versions | UnsetType | None = UNSET
    feature_flag: Flag | UnsetType | None = UNSET  # older SDKs send this instead of `feature_flags`
    feature_flags: Flags | UnsetType | None = UNSET
    group_name: Group | UnsetType | None = UNSET
    policy: Policy | UnsetType | None = UNSET
    validated: Validated | UnsetType = UNSET


class EventTypeUpdate(EventTypePatch, frozen=True, kw_only=True):
    """A replacement. A field that is left out gets its default, but `policy` and `validated` keep their values."""

    description: Description
    archived: bool = False
    deprecated: bool = False
    schemas: Versions | None = None
    feature_flag: Flag | None = None
    feature_flags: Flags | None = None
    group_name: Group | None = None


class EventTypeIn(EventTypeUpdate, frozen=True, kw_only=True):
    """An event type. `policy` overrides parts of the retry policy for its messages."""

    name: Name


class EventTypeOut(Out, frozen=True, kw_only=True):
    name: str
    description: str
    archived: bool
    deprecated: bool
    schemas: dict[str, dict[str, Any]] | UnsetType | None = UNSET
    feature_flag: str | None
    feature_flags: tuple[str, ...] | None
    group_name: str | None
    policy: Policy | None
    validated: bool
    created_at: Instant
    updated_at: Instant


def event_type_values(given: EventTypePatch) -> dict[str, Any]:
    """Return the values of a request by field name. `feature_flag`, which older SDKs send, becomes `feature_flags`."""
    found, flag = values(given, EventType), given.feature_flag
    if flag is not UNSET or given.feature_flags is not UNSET:
        found["feature_flags"] = given.feature_flags or (() if flag is None or flag is UNSET else (flag,))
    return found


def event_type(found: EventType, *, with_content: bool = True) -> EventTypeOut:
    return fill(
        EventTypeOut,
        found,
        schemas=found.schemas if with_content else UNSET,
        feature_flag=found.feature_flags[0] if found.feature_flags else None,
        feature_flags=found.feature_flags or None,
        policy=policy(found.policy),
    )
