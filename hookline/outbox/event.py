"""The check of an event before it goes into an outbox, and its payload as JSON. No I/O."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any, TypedDict, TypeVar

import msgspec
from msgspec import Struct

from hookline import clock, ids
from hookline.errors import ConfigError, InvalidInput
from hookline.model.fill import fill
from hookline.model.messages import NewMessage
from hookline.model.policy import PolicyOverride
from hookline.rules.checks.message import LARGEST_PAYLOAD, MAX_PAYLOAD, POLICY_BOUNDS, check_message
from hookline.rules.checks.text import check_instant, check_name, check_text
from hookline.rules.operational_events import MANAGEMENT
from hookline.rules.trace_context import joined, well_formed
from hookline.rules.units import size

T = TypeVar("T")


class EventFields(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of an event in an outbox, except its payload."""

    app: str
    event_type: str
    event_id: str
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    max_age: float | None = None  # seconds
    organization: str | None = None
    trace: str | None = None  # traceparent, and tracestate after a space


class Event(EventFields, frozen=True, kw_only=True):
    """An event that was checked. `event` makes it."""

    payload: str  # JSON


class EventOptions(TypedDict, total=False):
    """The options of `event` and `publish`. `publish` documents them."""

    event_id: str | None
    channels: Iterable[str] | None
    tags: Iterable[str] | None
    ordering_key: str | None
    deliver_at: datetime | None
    max_age: float | timedelta | None
    organization: str | None
    trace: str | None


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
    """Make an event for `publish_many`. The arguments are those of `publish`, which documents them."""
    now = clock.wall()
    made = Event(
        app=check_name("app", _text("app", app)),
        event_type=_text("event_type", event_type),
        payload=as_json(payload),
        event_id=ids.mint(ids.EVENT, now) if event_id is None else _text("event_id", event_id),
        channels=_if_given(_several, "channels", channels),
        tags=_if_given(_several, "tags", tags),
        ordering_key=_if_given(_text, "ordering_key", ordering_key),
        deliver_at=_if_given(_instant, "deliver_at", deliver_at),
        max_age=_if_given(_seconds, "max_age", max_age),
        organization=_if_given(_organization, "organization", organization),
        trace=_current_trace() if trace is None else _trace(trace),
    )
    check_message(_message(made), now=now, max_payload=_max_payload(), decoded=not _is_bytes(payload))
    return made


# ── the payload ───────────────────────────────────────────────────────────────────────────────────────────────────


def as_json(payload: Any) -> str:
    """Return the payload as compact JSON, not escaped to ASCII. Bytes must be JSON already and stay as they are."""
    if isinstance(payload, str):
        reason = "a str may be JSON or plain text; give a dict or list, or bytes that are JSON"
        raise InvalidInput(reason, field="payload")
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
    """Convert a value that `to_builtins` refuses: a mapping, a subclass of a plain type, or a pydantic model."""
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
        raise TypeError(f"{type(value).__name__} cannot be converted to JSON")
    return dump(mode="json")


# ── the other fields ──────────────────────────────────────────────────────────────────────────────────────────────


def _if_given(check: Callable[[str, Any], T], field: str, value: Any) -> T | None:
    return None if value is None else check(field, value)


def _text(field: str, value: str) -> str:
    """Return a plain str: drivers differ in how they write a StrEnum."""
    if not isinstance(value, str):
        raise InvalidInput(f"give a str, not {type(value).__name__}", field=field)
    return str.__str__(value)


def _several(field: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return the values as a tuple of plain strs. Refuse a str and a mapping, because Python would iterate over the
    characters of the str or the keys of the mapping."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        raise InvalidInput(f"give a list of them, not {type(values).__name__}", field=field)
    return tuple(_text(field, value) for value in values)


def _instant(field: str, value: datetime) -> datetime:
    """Return the instant in UTC. JSON and SQL cannot write every offset that a datetime can have."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"give a datetime with a time zone, not {type(value).__name__}", field=field)
    if value.utcoffset() is None:
        raise InvalidInput("needs a time zone", field=field)
    return check_instant(field, value).astimezone(UTC)


def _seconds(field: str, value: float | timedelta) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise InvalidInput(f"give seconds or a timedelta, not {type(value).__name__}", field=field)
    lowest, highest = POLICY_BOUNDS[field]
    given = value.total_seconds() if isinstance(value, timedelta) else value
    if not lowest <= given <= highest:
        raise InvalidInput("is not between a millisecond and 30 days", field=field)
    return float(given)


def _organization(field: str, value: str) -> str:
    if value == MANAGEMENT:
        raise InvalidInput("is reserved for Hookline", field=field)
    return check_text(field, _text(field, value), 256, shortest=1)


def _trace(value: str) -> str:
    kept = well_formed(_text("trace", value))
    if kept is None:
        raise InvalidInput("is not a traceparent, with a tracestate after a space", field="trace")
    return kept


def _current_trace() -> str | None:
    """Return the trace context of the current OpenTelemetry span. OpenTelemetry is used only if the application
    imported it."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    parent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    return joined(parent, span.trace_state.to_header()) if span.is_valid else None


def _message(made: Event) -> NewMessage:
    """Return the event as the message that the relay will check."""
    policy = None if made.max_age is None else PolicyOverride(max_age=made.max_age)
    return fill(NewMessage, made, id="", app_no=0, payload=made.payload.encode(), policy=policy)


@cache
def _max_payload() -> int:
    """Return the largest payload in bytes: HOOKLINE_MAX_PAYLOAD, or the default.

    The relay checks again with its own setting, and sets aside events that are larger.
    """
    text = os.environ.get("HOOKLINE_MAX_PAYLOAD", "").strip()
    try:
        limit: int = size(1, LARGEST_PAYLOAD)(text) if text else MAX_PAYLOAD
    except ValueError as expected:
        raise ConfigError(f"HOOKLINE_MAX_PAYLOAD: takes {expected}, not {text[:60]!r}") from None
    return limit
