"""Checks of applications, endpoints, event types and API keys, before they reach the store.

Each check raises `InvalidInput` with a message of one line, or returns the value to store: for an endpoint, with a
normalized URL and with a new secret if none was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from hookline import ids, signing
from hookline.errors import InvalidInput
from hookline.model import (
    ApplicationChange,
    Endpoint,
    EndpointChange,
    EventType,
    NewApiKey,
    NewApplication,
    NewEndpoint,
    Scheme,
    Secret,
)
from hookline.model.states import EndpointStatus
from hookline.rules.checks.message import check_policy
from hookline.rules.checks.text import (
    check_instant,
    check_name,
    check_names,
    check_number,
    check_own_name,
    check_text,
    check_whole,
    shown,
)
from hookline.rules.guard import Guard, check_headers, is_sensitive

MAX_EVENT_TYPES = 1000
MAX_ENDPOINT_CHANNELS = 10
MAX_SECRETS = 10
MAX_FLAGS = 100
MAX_METADATA = 50
MAX_METADATA_SIZE = 16 * 1024
MAX_SCHEMAS_SIZE = 256 * 1024
MAX_NOTE = 4096

A = TypeVar("A", NewApplication, ApplicationChange)

_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


# ── names and texts ───────────────────────────────────────────────────────────────────────────────────────────────


def check_event_type_name(name: str) -> str:
    return check_name("event type", name)


def check_uid(uid: str, prefix: str) -> str:
    """Check a uid. Callers may use it instead of the id, so it must not begin with the ids' `prefix`."""
    return check_own_name("uid", uid, prefix)


def _metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > MAX_METADATA:
        raise InvalidInput(f"more than {MAX_METADATA} entries", field="metadata")
    if sum(len(key) + len(value) for key, value in metadata.items()) > MAX_METADATA_SIZE:
        raise InvalidInput(f"more than {MAX_METADATA_SIZE} characters in all", field="metadata")
    for key, value in metadata.items():
        check_text("metadata", key, 256, shortest=1)
        check_text(f"metadata {shown(key)}", value, MAX_METADATA_SIZE)


# ── applications and event types ──────────────────────────────────────────────────────────────────────────────────


def check_application(given: A) -> A:
    """Check a new application, or a change of one."""
    if isinstance(given.name, str):
        check_text("name", given.name, 1024, shortest=1)
    if isinstance(given.uid, str):
        check_uid(given.uid, ids.APP)
    if given.throttle_rate is not None and given.throttle_rate is not UNSET:
        check_whole("throttle_rate", given.throttle_rate, 1, 65_535)
    if isinstance(given.metadata, dict):
        _metadata(given.metadata)
    return given


def check_api_key(new: NewApiKey, now: datetime) -> NewApiKey:
    check_text("name", new.name, 256, shortest=1)
    if new.expires_at is not None:
        check_instant("expires_at", new.expires_at)
        if new.expires_at <= now:
            raise InvalidInput("is in the past", field="expires_at")
    return new


def check_event_type(event_type: EventType) -> EventType:
    check_name("name", event_type.name)
    check_text("description", event_type.description, 4096)
    if len(event_type.feature_flags) > MAX_FLAGS:
        raise InvalidInput(f"more than {MAX_FLAGS}", field="feature_flags")
    for flag in event_type.feature_flags:
        check_name("feature_flags", flag)
    if event_type.group_name is not None:
        check_name("group_name", event_type.group_name)
    if event_type.schemas is not None:
        _check_schemas(event_type.schemas)
    if event_type.policy is not None:
        check_policy(event_type.policy)
    return event_type


def _check_schemas(schemas: dict[str, Any]) -> None:
    """Check the size and form of the schemas. `services/schemas` checks that they are valid JSON Schema."""
    for version in schemas:
        check_name("schemas", version)
    try:
        text = msgspec.json.encode(schemas)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("cannot be written as JSON", field="schemas") from None
    if len(text) > MAX_SCHEMAS_SIZE:
        raise InvalidInput(f"more than {MAX_SCHEMAS_SIZE} bytes", field="schemas")
    if _ESCAPED_NUL.search(text):
        raise InvalidInput("have a NUL", field="schemas")


# ── endpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────


def check_endpoint(new: NewEndpoint, guard: Guard) -> NewEndpoint:
    _check_fields(new)
    if new.status == EndpointStatus.DELETED:
        raise InvalidInput("a new endpoint cannot be deleted", field="status")
    secrets = new.secrets or (Secret(key=signing.new_secret()),)
    _check_secrets(secrets, new.scheme)
    _check_strength(secrets, (), new.scheme)
    return replace(new, url=guard.check_url(new.url), secrets=secrets)


def check_change(change: EndpointChange, current: Endpoint, guard: Guard) -> EndpointChange:
    """Check a change of an endpoint. A new signature scheme must suit the secrets that are kept."""
    _check_fields(change)
    if change.secrets is not UNSET or change.scheme is not UNSET:
        secrets = current.secrets if change.secrets is UNSET else change.secrets
        scheme = current.scheme if change.scheme is UNSET else change.scheme
        _check_secrets(secrets, scheme)
        _check_strength(secrets, current.secrets, scheme)
    if change.url is not UNSET:
        return replace(change, url=guard.check_url(change.url))
    return change


def moves(change: EndpointChange, current: Endpoint) -> bool:
    """Return whether the change sends requests to another scheme, host or port. The change must be checked already."""
    return change.url is not UNSET and urlsplit(change.url)[:2] != urlsplit(current.url)[:2]


def check_nothing_hidden(current: Endpoint) -> None:
    """Refuse a new host while the endpoint has secret headers: the owner of the new host would receive their values."""
    hidden = [name for name in current.headers if is_sensitive(name)]
    if hidden:
        raise InvalidInput(
            f"the endpoint has headers whose values are not shown ({', '.join(hidden)}): remove them first, "
            "or keep the scheme, host and port",
            field="url",
        )


# The check of each field of a new or changed endpoint. It is not called for None and UNSET.
_FIELDS: dict[str, Callable[[Any], object]] = {
    "uid": lambda uid: check_uid(uid, ids.ENDPOINT),
    "description": lambda text: check_text("description", text, 4096),
    "version": lambda version: check_whole("version", version, 1, 65_535),
    "event_types": lambda names: check_names("event_types", names, MAX_EVENT_TYPES, 256),
    "channels": lambda names: check_names("channels", names, MAX_ENDPOINT_CHANNELS, 128),
    "throttle_rate": lambda rate: check_number("throttle_rate", rate, 0.001, 65_535),
    "concurrency": lambda limit: check_whole("concurrency", limit, 1, 10_000),
    "headers": check_headers,
    "metadata": _metadata,
    "policy": check_policy,
}


def _check_fields(given: NewEndpoint | EndpointChange) -> None:
    for field, check in _FIELDS.items():
        value = getattr(given, field)
        if value is not None and value is not UNSET:
            check(value)


def _check_secrets(secrets: Sequence[Secret], scheme: Scheme) -> None:
    if not 1 <= len(secrets) <= MAX_SECRETS:
        raise InvalidInput(f"an endpoint has 1 to {MAX_SECRETS}", field="secrets")
    if secrets[0].expires_at is not None:
        raise InvalidInput("the first one is the current one and does not expire", field="secrets")
    if len({secret.key for secret in secrets}) != len(secrets):
        raise InvalidInput("the same one is given twice", field="secrets")
    for secret in secrets:
        signing.check_secret(secret.key, scheme)
        if secret.expires_at is not None:
            check_instant("secrets.expires_at", secret.expires_at)


def _check_strength(secrets: Sequence[Secret], before: Sequence[Secret], scheme: Scheme) -> None:
    """Check the strength of the secrets that are new. Existing ones are kept even if they are weak."""
    known = {secret.key for secret in before}
    for secret in secrets:
        if secret.key not in known:
            signing.check_strength(secret.key, scheme)


def check_cause(cause: str) -> str:
    """Check the reason that a person gives for pausing, resuming or resetting an endpoint."""
    return check_text("cause", cause, 500, shortest=1)


def check_span(since: datetime, until: datetime, longest: timedelta) -> None:
    if since >= until:
        raise InvalidInput("must be before until", field="since")
    if until - since > longest:
        raise InvalidInput(f"is more than {longest.days} days before until", field="since")


# ── dead letters and tasks ────────────────────────────────────────────────────────────────────────────────────────


def check_note(note: str) -> str:
    return check_text("note", note, MAX_NOTE, shortest=1)


def check_chosen(field: str, value: str | None) -> str | None:
    """Check a channel or tag that selects messages."""
    return None if value is None else check_text(field, value, 128, shortest=1)


def check_chosen_types(names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    check_names("eventTypes", names, MAX_EVENT_TYPES, 256)
    return tuple(names)
