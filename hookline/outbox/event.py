"""An event as it goes into an outbox: checked, its payload already JSON. Pure."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from hookline import clock, ids
from hookline.errors import ConfigError, InvalidInput
from hookline.model import NewMessage, PolicyOverride
from hookline.rules.checks.message import LARGEST_PAYLOAD, MAX_PAYLOAD, POLICY_BOUNDS, check_message
from hookline.rules.checks.text import check_instant, check_name, check_text
from hookline.rules.operational_events import MANAGEMENT
from hookline.rules.trace_context import joined, well_formed
from hookline.rules.units import size


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Made by `event`, which checks it."""

    app: str
    event_type: str
    payload: str  # JSON
    event_id: str
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    max_age: float | None = None  # seconds
    organization: str | None = None
    trace: str | None = None  # traceparent, and tracestate after a space


def event(
    app: str,
    event_type: str,
    payload: Any,
    *,
    event_id: str | None = None,
    channels: Iterable[str] | None = None,
    tags: Iterable[str] | None = None,
    ordering_key: str | None = None,
    deliver_at: datetime | None = None,
    max_age: float | timedelta | None = None,
    organization: str | None = None,
    trace: str | None = None,
) -> Event:
    """For `publish_many`; `publish` takes the same arguments and says what they mean."""
    now = clock.wall()
    made = Event(
        app=check_name("app", _text("app", app)),
        event_type=_text("event_type", event_type),
        payload=as_json(payload),
        event_id=ids.mint(ids.EVENT, now) if event_id is None else _text("event_id", event_id),
        channels=_several("channels", channels),
        tags=_several("tags", tags),
        ordering_key=_optional("ordering_key", ordering_key),
        deliver_at=_instant(deliver_at),
        max_age=_seconds(max_age),
        organization=_organization(organization),
        trace=_current_trace() if trace is None else _trace(trace),
    )
    check_message(_message(made), now=now, max_payload=_most_payload(), decoded=not _is_bytes(payload))
    return made


# ── the payload ───────────────────────────────────────────────────────────────────────────────────────────────────


def as_json(payload: Any) -> str:
    """Compact, and readable beyond ASCII. Bytes are JSON already and stay as they are."""
    if isinstance(payload, str):
        raise InvalidInput(
            "a str could be JSON or a text; give a dict or list, or bytes that are JSON", field="payload"
        )
    try:
        if _is_bytes(payload):
            return bytes(payload).decode()
        plain = msgspec.to_builtins(payload, str_keys=True, enc_hook=_plain)
        made = json.dumps(plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        made.encode()
    except UnicodeDecodeError:
        raise InvalidInput("is not UTF-8", field="payload") from None
    except UnicodeEncodeError:
        raise InvalidInput("has a lone surrogate", field="payload") from None
    except RecursionError:
        raise InvalidInput("is nested too deeply, or contains itself", field="payload") from None
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"cannot be JSON: {error}", field="payload") from None
    return made


def _is_bytes(payload: Any) -> bool:
    return isinstance(payload, bytes | bytearray | memoryview)


def _plain(value: Any) -> Any:
    """What `to_builtins` does not take: other mappings, subclasses of the plain types, and pydantic's models."""
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case date() | time():
            return value.isoformat()
        case Mapping():
            return dict(value)
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} is none of the types that JSON has")
    return dump(mode="json")


# ── the rest ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _text(field: str, value: str) -> str:
    """Without its class: a StrEnum is to every driver something else."""
    if not isinstance(value, str):
        raise InvalidInput(f"give a str, not {type(value).__name__}", field=field)
    return str.__str__(value)


def _optional(field: str, value: str | None) -> str | None:
    return None if value is None else _text(field, value)


def _several(field: str, values: Iterable[str] | None) -> tuple[str, ...] | None:
    """A str is several letters to Python, and a mapping several keys: surely not what was meant."""
    if values is None:
        return None
    if isinstance(values, str | bytes | Mapping):
        raise InvalidInput(f"give a list of them, not {type(values).__name__}", field=field)
    try:
        listed = tuple(values)
    except TypeError:
        raise InvalidInput(f"give a list of them, not {type(values).__name__}", field=field) from None
    return tuple(_text(field, value) for value in listed)


def _instant(value: datetime | None) -> datetime | None:
    """In UTC, because not every offset can be written down."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidInput(f"give a datetime with a time zone, not {type(value).__name__}", field="deliver_at")
    if value.utcoffset() is None:
        raise InvalidInput("needs a time zone", field="deliver_at")
    return check_instant("deliver_at", value).astimezone(UTC)


def _seconds(value: float | timedelta | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise InvalidInput(f"give seconds or a timedelta, not {type(value).__name__}", field="max_age")
    lowest, highest = POLICY_BOUNDS["max_age"]
    given = value.total_seconds() if isinstance(value, timedelta) else value
    if not lowest <= given <= highest:
        raise InvalidInput("is not between a millisecond and 30 days", field="max_age")
    return float(given)


def _organization(value: str | None) -> str | None:
    if value is None:
        return None
    if value == MANAGEMENT:
        raise InvalidInput("is Hookline's own", field="organization")
    return check_text("organization", _text("organization", value), 256, shortest=1)


def _trace(value: str) -> str:
    kept = well_formed(_text("trace", value))
    if kept is None:
        raise InvalidInput("is not a traceparent, with a tracestate after a space", field="trace")
    return kept


def _current_trace() -> str | None:
    """Of the span that is open here, where the application uses OpenTelemetry; it is never imported for this."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    parent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    return joined(parent, span.trace_state.to_header()) if span.is_valid else None


def _message(made: Event) -> NewMessage:
    """As the relay will see it."""
    return NewMessage(
        id="",
        app_no=0,
        event_type=made.event_type,
        payload=made.payload.encode(),
        event_id=made.event_id,
        channels=made.channels,
        tags=made.tags,
        ordering_key=made.ordering_key,
        deliver_at=made.deliver_at,
        policy=None if made.max_age is None else PolicyOverride(max_age=made.max_age),
    )


@cache
def _most_payload() -> int:
    """The deployment's setting, where the application is told of it; the relay sets aside what is larger than its own."""
    text = os.environ.get("HOOKLINE_MAX_PAYLOAD", "").strip()
    try:
        most: int = size(1, LARGEST_PAYLOAD)(text) if text else MAX_PAYLOAD
    except ValueError as takes:
        raise ConfigError(f"HOOKLINE_MAX_PAYLOAD: takes {takes}, not {text[:60]!r}") from None
    return most
