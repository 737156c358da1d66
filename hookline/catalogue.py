"""What callers give, checked before it comes to a store. Pure; each check raises `InvalidInput` with one clear line.

A check returns what is to be stored: the URL in its one form, a secret where none was given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from hookline import ids, signing
from hookline.errors import InvalidInput
from hookline.flow.guard import Guard, check_headers
from hookline.model import (
    ApplicationChange,
    Endpoint,
    EndpointChange,
    EventType,
    NewApiKey,
    NewApplication,
    NewEndpoint,
    NewMessage,
    PolicyOverride,
    RetryPolicy,
    Scheme,
    Secret,
    Strategy,
)
from hookline.states import EndpointStatus

DAY = 86_400.0
MAX_PAYLOAD = 1024 * 1024
MAX_DELAY = timedelta(days=30)  # of `deliver_at`
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)  # instants beyond these do not survive a change of time zone
LATEST = datetime(3000, 1, 1, tzinfo=UTC)
MAX_EVENT_TYPES = 1000
MAX_ENDPOINT_CHANNELS = 10
MAX_MESSAGE_CHANNELS = 5
MAX_TAGS = 10
MAX_SECRETS = 10
MAX_SCHEDULE = 50
MAX_METADATA = 50
MAX_METADATA_SIZE = 16 * 1024
MAX_SCHEMAS_SIZE = 256 * 1024

# Lowest and highest value of each number in a retry policy, in seconds where it is a time.
POLICY_BOUNDS: Mapping[str, tuple[float, float]] = {
    "base": (0.001, DAY),
    "factor": (1, 100),
    "cap": (0.001, 30 * DAY),
    "max_attempts": (1, 100),
    "max_age": (0.001, 30 * DAY),
    "retry_after_cap": (0, 30 * DAY),
    "schedule": (0, 30 * DAY),
}

A = TypeVar("A", NewApplication, ApplicationChange)

_NAME = re.compile(r"[a-zA-Z0-9\-_.]+", re.A)
_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_raw = msgspec.json.Decoder(msgspec.Raw)


# ── names and texts ───────────────────────────────────────────────────────────────────────────────────────────────


def check_event_type_name(name: str) -> str:
    return _name("event type", name)


def check_uid(uid: str, prefix: str) -> str:
    """A caller's own name for a thing whose ids begin with `prefix`: wherever an id is taken, the uid is too."""
    return _own_name("uid", uid, prefix)


def _own_name(field: str, value: str, prefix: str) -> str:
    _name(field, value)
    if value.startswith(prefix):
        raise InvalidInput(f"{field}: must not begin with {prefix!r}, as Hookline's own ids do")
    return value


def _name(field: str, value: str, longest: int = 256) -> str:
    if not 1 <= len(value) <= longest or not _NAME.fullmatch(value):
        raise InvalidInput(f"{field}: {_shown(value)} is not 1 to {longest} of the characters a-z A-Z 0-9 - _ .")
    if value in (".", ".."):  # a step of a path that every client resolves away: nothing of that name could be reached
        raise InvalidInput(f"{field}: {value!r} cannot stand in a URL")
    return value


def _names(field: str, values: Sequence[str], most: int, longest: int) -> None:
    _listed(field, values, most)
    for value in values:
        _name(field, value, longest)


def _listed(field: str, values: Sequence[str], most: int) -> None:
    if not 1 <= len(values) <= most:
        raise InvalidInput(f"{field}: give 1 to {most}, or leave it out")
    if len(set(values)) != len(values):
        raise InvalidInput(f"{field}: has the same entry twice")


def _text(field: str, value: str, longest: int, shortest: int = 0) -> str:
    """Text that both databases can hold: PostgreSQL takes no NUL, and no encoding takes half a surrogate pair."""
    if not shortest <= len(value) <= longest:
        raise InvalidInput(f"{field}: must be {shortest} to {longest} characters long")
    if "\x00" in value or not _encodable(value):
        raise InvalidInput(f"{field}: has a NUL or a lone surrogate")
    return value


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:60] + "…")


def _metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > MAX_METADATA:
        raise InvalidInput(f"metadata: more than {MAX_METADATA} entries")
    if sum(len(key) + len(value) for key, value in metadata.items()) > MAX_METADATA_SIZE:
        raise InvalidInput(f"metadata: more than {MAX_METADATA_SIZE} characters in all")
    for key, value in metadata.items():
        _text("metadata", key, 256, shortest=1)
        _text(f"metadata {_shown(key)}", value, MAX_METADATA_SIZE)


def _number(field: str, value: float, lowest: float, highest: float) -> None:
    """Also refuses NaN, which no comparison holds for, and booleans, which are whole numbers to Python."""
    if isinstance(value, bool) or not math.isfinite(value) or not lowest <= value <= highest:
        raise InvalidInput(f"{field}: {value} is not a number from {lowest:g} to {highest:g}")


def _whole(field: str, value: int, lowest: int, highest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise InvalidInput(f"{field}: {value} is not a whole number from {lowest} to {highest}")


# ── policies ──────────────────────────────────────────────────────────────────────────────────────────────────────


def check_policy(policy: PolicyOverride | RetryPolicy) -> None:
    for field, (lowest, highest) in POLICY_BOUNDS.items():
        value = getattr(policy, field)
        if field == "max_attempts" and value is not None:
            _whole("policy.max_attempts", value, int(lowest), int(highest))
        elif field != "schedule" and value is not None:
            _number(f"policy.{field}", value, lowest, highest)
    _check_schedule(policy)
    if policy.base is not None and policy.cap is not None and policy.cap < policy.base:
        raise InvalidInput(f"policy.cap: {policy.cap:g} is less than the base, {policy.base:g}")


def _check_schedule(policy: PolicyOverride | RetryPolicy) -> None:
    """An override that has a schedule alone is for a deployment whose strategy is fixed."""
    schedule = policy.schedule or ()
    if policy.strategy == Strategy.FIXED and not schedule:
        raise InvalidInput("policy.schedule: the fixed strategy needs at least one delay")
    if policy.strategy not in (None, Strategy.FIXED) and schedule:
        raise InvalidInput(f"policy.schedule: the strategy {policy.strategy} has none")
    if policy.strategy is None and policy.schedule == ():
        raise InvalidInput("policy.schedule: give at least one delay, or leave it out")
    if len(schedule) > MAX_SCHEDULE:
        raise InvalidInput(f"policy.schedule: more than {MAX_SCHEDULE} delays")
    for delay in schedule:
        _number("policy.schedule", delay, *POLICY_BOUNDS["schedule"])


# ── applications and event types ──────────────────────────────────────────────────────────────────────────────────


def check_application(given: A) -> A:
    """New or changed."""
    if isinstance(given.name, str):
        _text("name", given.name, 1024, shortest=1)
    if isinstance(given.uid, str):
        check_uid(given.uid, ids.APP)
    if isinstance(given.throttle_rate, int):
        raise InvalidInput("throttle_rate: not supported yet for an application; set it on its endpoints")
    if isinstance(given.metadata, dict):
        _metadata(given.metadata)
    return given


def check_api_key(new: NewApiKey, now: datetime) -> NewApiKey:
    _text("name", new.name, 256, shortest=1)
    if new.expires_at is not None:
        _instant("expires_at", new.expires_at)
        if new.expires_at <= now:
            raise InvalidInput("expires_at: is over already")
    return new


def check_event_type(event_type: EventType) -> EventType:
    check_event_type_name(event_type.name)
    _text("description", event_type.description, 4096)
    for flag in event_type.feature_flags:
        _name("feature flag", flag)
    if event_type.group_name is not None:
        _name("group name", event_type.group_name)
    if event_type.schemas is not None:
        _check_schemas(event_type.schemas)
    if event_type.policy is not None:
        check_policy(event_type.policy)
    return event_type


def _check_schemas(schemas: dict[str, Any]) -> None:
    """Their size and form; `hookline.schema` has the rest."""
    for version in schemas:
        _name("schemas", version)
    try:
        text = msgspec.json.encode(schemas)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("schemas: cannot be written as JSON") from None
    if len(text) > MAX_SCHEMAS_SIZE:
        raise InvalidInput(f"schemas: more than {MAX_SCHEMAS_SIZE} bytes")
    if _ESCAPED_NUL.search(text):
        raise InvalidInput("schemas: have a NUL")


# ── endpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────


def check_endpoint(new: NewEndpoint, guard: Guard) -> NewEndpoint:
    _check_fields(new)
    if new.status == EndpointStatus.DELETED:
        raise InvalidInput("status: a new endpoint cannot be deleted")
    secrets = new.secrets or (Secret(key=signing.new_secret()),)
    _check_secrets(secrets, new.scheme)
    return replace(new, url=guard.check_url(new.url), secrets=secrets)


def check_change(change: EndpointChange, current: Endpoint, guard: Guard) -> EndpointChange:
    """Fields that are UNSET stay so. A new scheme must fit the secrets that stay."""
    _check_fields(change)
    if change.secrets is not UNSET or change.scheme is not UNSET:
        secrets = current.secrets if change.secrets is UNSET else change.secrets
        _check_secrets(secrets, current.scheme if change.scheme is UNSET else change.scheme)
    if change.url is not UNSET:
        return replace(change, url=guard.check_url(change.url))
    return change


# What each field of an endpoint takes, new or changed; None and UNSET are never asked.
_FIELDS: dict[str, Callable[[Any], object]] = {
    "uid": lambda uid: check_uid(uid, ids.ENDPOINT),
    "description": lambda text: _text("description", text, 4096),
    "version": lambda version: _whole("version", version, 1, 65_535),
    "event_types": lambda names: _names("event_types", names, MAX_EVENT_TYPES, 256),
    "channels": lambda names: _names("channels", names, MAX_ENDPOINT_CHANNELS, 128),
    "throttle_rate": lambda rate: _number("throttle_rate", rate, 0.001, 65_535),
    "concurrency": lambda most: _whole("concurrency", most, 1, 10_000),
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
        raise InvalidInput(f"secrets: an endpoint has 1 to {MAX_SECRETS}")
    if secrets[0].expires_at is not None:
        raise InvalidInput("secrets: the first one is the current one and does not expire")
    if len({secret.key for secret in secrets}) != len(secrets):
        raise InvalidInput("secrets: the same one is given twice")
    for secret in secrets:
        signing.check_secret(secret.key, scheme)
        if secret.expires_at is not None:
            _instant("secrets.expires_at", secret.expires_at)


def check_cause(cause: str) -> str:
    """Why somebody paused, resumed or reset an endpoint: kept in its history."""
    return _text("cause", cause, 500, shortest=1)


def check_span(since: datetime, until: datetime, longest: timedelta) -> None:
    if since >= until:
        raise InvalidInput("since: must be before until")
    if until - since > longest:
        raise InvalidInput(f"since: is more than {longest.days} days before until")


def check_instant(field: str, value: datetime) -> datetime:
    _instant(field, value)
    return value


def _instant(field: str, value: datetime) -> None:
    if value.tzinfo is None:
        raise InvalidInput(f"{field}: needs a time zone")
    if not EARLIEST <= value <= LATEST:
        raise InvalidInput(f"{field}: is not between the years {EARLIEST.year} and {LATEST.year}")


# ── dead letters and tasks ────────────────────────────────────────────────────────────────────────────────────────


def check_note(note: str) -> str:
    return _text("note", note, 4096, shortest=1)


def check_chosen(field: str, value: str | None) -> str | None:
    """A channel or tag to choose messages by."""
    return None if value is None else _text(field, value, 128, shortest=1)


def check_chosen_types(names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    _names("eventTypes", names, MAX_EVENT_TYPES, 256)
    return tuple(names)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────────


def check_message(
    new: NewMessage, *, now: datetime, max_payload: int = MAX_PAYLOAD, decoded: bool = False
) -> NewMessage:
    """`decoded`: the payload was cut out of a JSON text that has been read, so that it need not be read again."""
    _name("event type", new.event_type)
    check_payload(new.payload, max_payload, decoded=decoded)
    if new.event_id is not None:
        _own_name("event_id", new.event_id, ids.MESSAGE)
    if new.channels is not None:
        _names("channels", new.channels, MAX_MESSAGE_CHANNELS, 128)
    if new.tags is not None:
        _listed("tags", new.tags, MAX_TAGS)
        for tag in new.tags:
            _text("tags", tag, 128, shortest=1)
    if new.ordering_key is not None:
        _text("ordering_key", new.ordering_key, 256, shortest=1)
    if new.deliver_at is not None:
        _check_deliver_at(new.deliver_at, now)
    if new.policy is not None:
        check_policy(new.policy)
    return new


def check_payload(payload: bytes, most: int = MAX_PAYLOAD, *, decoded: bool = False) -> None:
    """Valid JSON in UTF-8. Nothing is decoded into objects: the bytes that came are the bytes that are sent."""
    if len(payload) > most:
        raise InvalidInput(f"payload: {len(payload)} bytes, more than {most}")
    try:
        payload.decode()  # `Raw` skips over strings without looking at their encoding
        if not decoded:
            _raw.decode(payload)
    except UnicodeDecodeError:
        raise InvalidInput("payload: is not UTF-8") from None
    except RecursionError:
        raise InvalidInput("payload: is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise InvalidInput(f"payload: is not JSON: {error}") from None


def _check_deliver_at(deliver_at: datetime, now: datetime) -> None:
    _instant("deliver_at", deliver_at)
    if deliver_at - now > MAX_DELAY:
        raise InvalidInput(f"deliver_at: more than {MAX_DELAY.days} days ahead")
