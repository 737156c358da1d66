"""Checks of applications, endpoints, event types and API keys, before they reach the store.

Each check raises `InvalidInput` with a message of one line, or returns the value to store: for an endpoint, with a
normalized URL and with a new secret if none was given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from hookline import ids, signing
from hookline.errors import InvalidInput
from hookline.model.actors import NewApiKey
from hookline.model.catalogue import ApplicationChange, EventType, NewApplication
from hookline.model.endpoints import Endpoint, EndpointChange, NewEndpoint, Scheme, Secret
from hookline.model.states import EndpointStatus
from hookline.model.tasks import TaskWork
from hookline.rules.checks import text as text_checks
from hookline.rules.checks.message import MAX_CHANNEL, check_policy
from hookline.rules.guard import Guard, check_headers
from hookline.rules.redaction import is_sensitive

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


# ── fields ────────────────────────────────────────────────────────────────────────────────────────────────────────

# For each field: the function that checks it, and its limits. The function gets the field's name, the value and the
# limits.
_Checks = Mapping[str, tuple[Any, ...]]


def _check_fields(given: Struct, checks: _Checks) -> None:
    """Check each field that is set: neither None nor UNSET."""
    for field, (check, *limits) in checks.items():
        value = getattr(given, field)
        if value is not None and value is not UNSET:
            check(field, value, *limits)


def _check_metadata(field: str, metadata: Mapping[str, str]) -> None:
    if len(metadata) > MAX_METADATA:
        raise InvalidInput(f"more than {MAX_METADATA} entries", field=field)
    if sum(len(key) + len(value) for key, value in metadata.items()) > MAX_METADATA_SIZE:
        raise InvalidInput(f"more than {MAX_METADATA_SIZE} characters in all", field=field)
    for key, value in metadata.items():
        text_checks.check_text(field, key, 256, shortest=1)
        text_checks.check_text(f"{field} {text_checks.shown(key)}", value, MAX_METADATA_SIZE)


# ── applications and event types ──────────────────────────────────────────────────────────────────────────────────


_APPLICATION: _Checks = {
    "name": (text_checks.check_text, 1024, 1),
    "uid": (text_checks.check_own_name, ids.APP),
    "throttle_rate": (text_checks.check_whole, 1, 65_535),
    "metadata": (_check_metadata,),
}


def check_application(given: A) -> A:
    """Check a new application, or a change of one."""
    _check_fields(given, _APPLICATION)
    return given


def check_api_key(new: NewApiKey, now: datetime) -> NewApiKey:
    text_checks.check_text("name", new.name, 256, shortest=1)
    if new.expires_at is not None:
        text_checks.check_instant("expires_at", new.expires_at)
        if new.expires_at <= now:
            raise InvalidInput("is in the past", field="expires_at")
    return new


def check_event_type(event_type: EventType) -> EventType:
    _check_fields(event_type, _EVENT_TYPE)
    return event_type


def _check_flags(field: str, flags: Sequence[str]) -> None:
    if len(flags) > MAX_FLAGS:
        raise InvalidInput(f"more than {MAX_FLAGS}", field=field)
    for flag in flags:
        text_checks.check_name(field, flag)


def _check_schemas(field: str, schemas: dict[str, Any]) -> None:
    """Check the size and form of the schemas. `services/schemas` checks that they are valid JSON Schema."""
    for version in schemas:
        text_checks.check_name(field, version)
    try:
        text = msgspec.json.encode(schemas)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("cannot be written as JSON", field=field) from None
    if len(text) > MAX_SCHEMAS_SIZE:
        raise InvalidInput(f"more than {MAX_SCHEMAS_SIZE} bytes", field=field)
    if _ESCAPED_NUL.search(text):
        raise InvalidInput("have a NUL", field=field)


_EVENT_TYPE: _Checks = {
    "name": (text_checks.check_name,),
    "description": (text_checks.check_text, 4096),
    "feature_flags": (_check_flags,),
    "group_name": (text_checks.check_name,),
    "schemas": (_check_schemas,),
    "policy": (lambda _, policy: check_policy(policy),),
}


# ── endpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────


def check_endpoint(new: NewEndpoint, guard: Guard) -> NewEndpoint:
    _check_fields(new, _ENDPOINT)
    if new.status == EndpointStatus.DELETED:
        raise InvalidInput("a new endpoint cannot be deleted", field="status")
    secrets = new.secrets or (Secret(key=signing.new_secret()),)
    _check_secrets(secrets, new.scheme)
    _check_strength(secrets, (), new.scheme)
    return replace(new, url=guard.check_url(new.url), secrets=secrets)


def check_change(change: EndpointChange, current: Endpoint, guard: Guard) -> EndpointChange:
    """Check a change of an endpoint. The secrets after the change must fit the signature scheme after the change."""
    _check_fields(change, _ENDPOINT)
    if change.secrets is not UNSET or change.scheme is not UNSET:
        secrets = current.secrets if change.secrets is UNSET else change.secrets
        scheme = current.scheme if change.scheme is UNSET else change.scheme
        _check_secrets(secrets, scheme)
        _check_strength(secrets, current.secrets, scheme)
    if change.url is not UNSET:
        return replace(change, url=guard.check_url(change.url))
    return change


def moves(change: EndpointChange, current: Endpoint) -> bool:
    """Return whether the change sends requests to another scheme, host or port. The change must have been checked."""
    return change.url is not UNSET and urlsplit(change.url)[:2] != urlsplit(current.url)[:2]


def check_nothing_hidden(current: Endpoint) -> None:
    """Refuse a new host while the endpoint has secret headers: the owner of the new host would receive their
    values."""
    hidden = [name for name in current.headers if is_sensitive(name)]
    if hidden:
        raise InvalidInput(
            f"the endpoint has headers whose values are not shown ({', '.join(hidden)}): remove them first, "
            "or keep the scheme, host and port",
            field="url",
        )


_ENDPOINT: _Checks = {
    "uid": (text_checks.check_own_name, ids.ENDPOINT),
    "description": (text_checks.check_text, 4096),
    "version": (text_checks.check_whole, 1, 65_535),
    "event_types": (text_checks.check_names, MAX_EVENT_TYPES, 256),
    "channels": (text_checks.check_names, MAX_ENDPOINT_CHANNELS, MAX_CHANNEL),
    "throttle_rate": (text_checks.check_number, 0.001, 65_535),
    "concurrency": (text_checks.check_whole, 1, 10_000),
    "headers": (lambda _, headers: check_headers(headers),),
    "metadata": (_check_metadata,),
    "policy": (lambda _, policy: check_policy(policy),),
}


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
            text_checks.check_instant("secrets.expires_at", secret.expires_at)


def _check_strength(secrets: Sequence[Secret], before: Sequence[Secret], scheme: Scheme) -> None:
    """Check the strength of the secrets that are new. Existing ones are kept even if they are weak."""
    known = {secret.key for secret in before}
    for secret in secrets:
        if secret.key not in known:
            signing.check_strength(secret.key, scheme)


def check_span(since: datetime, until: datetime, longest: timedelta) -> None:
    if since >= until:
        raise InvalidInput("must be before until", field="since")
    if until - since > longest:
        raise InvalidInput(f"is more than {longest.days} days before until", field="since")


# ── dead letters and tasks ────────────────────────────────────────────────────────────────────────────────────────


def check_note(note: str) -> str:
    return text_checks.check_text("note", note, MAX_NOTE, shortest=1)


_TASK: _Checks = {
    "event_types": (text_checks.check_names, MAX_EVENT_TYPES, 256),
    "channel": (text_checks.check_text, MAX_CHANNEL, 1),
    "tag": (text_checks.check_text, 128, 1),
}


def check_selection(work: TaskWork) -> None:
    """Check the fields that select the messages of a task: event types, channel and tag."""
    _check_fields(work, _TASK)
