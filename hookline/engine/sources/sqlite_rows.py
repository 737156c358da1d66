"""Parses rows of an application's table `hookline_outbox`, without I/O. An invalid value raises no error: it becomes
the `fault` of the row."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from hookline.model.outbox import OutboxPlace, OutboxRow
from hookline.model.policy import PolicyOverride
from hookline.outbox.adapters import statements
from hookline.rules.trace_context import well_formed
from hookline.store.plans.outbox_rows import NO_AGE, NO_INSTANT, NO_TEXT, NO_TEXTS

T = TypeVar("T")

COLUMNS = ("id", "uid", *statements.COLUMNS, "created_at")

_UID = re.compile(r"[0-9A-Za-z_-]{1,64}", re.A)
_texts = msgspec.json.Decoder(tuple[str, ...])


def row_of(raw: Mapping[str, Any], now: datetime) -> OutboxRow:
    """Return the parsed row. In `raw`, text and blobs are bytes."""
    reading = _Reading(raw)
    uid = uid_of(raw["uid"])
    max_age = reading.number("max_age")
    row = OutboxRow(
        id=raw["id"],
        app=reading.required("app"),
        event_type=reading.required("event_type"),
        payload=reading.payload(),
        event_id=reading.required("event_id") or f"evt_{uid}",
        org_id=reading.value("organization", NO_TEXT, _text),
        channels=reading.value("channels", NO_TEXTS, _list),
        tags=reading.value("tags", NO_TEXTS, _list),
        ordering_key=reading.value("ordering_key", NO_TEXT, _text),
        deliver_at=reading.value("deliver_at", NO_INSTANT, _instant),
        policy=None if max_age is None else PolicyOverride(max_age=max_age),
        trace=_trace(raw["trace"]),
        age=_age(raw["created_at"], now),
    )
    return row if reading.fault is None else replace(row, fault=reading.fault)


def place_of(raw: Mapping[str, Any]) -> OutboxPlace:
    return OutboxPlace(row_id=raw["id"], row_uid=uid_of(raw["uid"]))


def uid_of(value: Any) -> str:
    """Return the uid as text. A uid that does not have Hookline's form becomes a digest, which still identifies the
    row."""
    text = value.decode("latin-1") if isinstance(value, bytes) else repr(value)
    return text if _UID.fullmatch(text) else hashlib.sha256(text.encode("latin-1", "replace")).hexdigest()[:24]


class _Reading:
    """Parses the fields of one row, and keeps the first fault."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        self.fault: str | None = None

    def required(self, field: str) -> str:
        found = self.value(field, NO_TEXT, _text)
        return self._invalid(field, "is NULL", NO_TEXT) if found is None else found

    def payload(self) -> bytes:
        """Return the payload unparsed. It is parsed later, when the message is checked."""
        found = self._raw["payload"]
        if isinstance(found, bytes):
            return found
        return self._invalid("payload", "is NULL" if found is None else "is a number, not JSON text", b"")

    def number(self, field: str) -> float | None:
        found = self._raw[field]
        if found is None:
            return None
        if not isinstance(found, int | float) or not math.isfinite(found):
            return self._invalid(field, "is not a number", NO_AGE)
        return found

    def value(self, field: str, unreadable: T, decode: Callable[[bytes], T]) -> T | None:
        found = self._raw[field]
        if found is None:
            return None
        if not isinstance(found, bytes):
            return self._invalid(field, "is a number, not a text", unreadable)
        try:
            return decode(found)
        except UnicodeDecodeError:
            return self._invalid(field, "is not UTF-8", unreadable)
        except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            return self._invalid(field, str(error), unreadable)

    def _invalid(self, field: str, reason: str, unreadable: T) -> T:
        self.fault = self.fault or f"{field}: {reason}"
        return unreadable


def _trace(value: Any) -> str | None:
    """Return the trace context, or None if it is malformed.

    The message is still sent, because it matters more than its trace.
    """
    return well_formed(value.decode("latin-1")) if isinstance(value, bytes) else None


def _age(created_at: Any, now: datetime) -> float:
    """Return the seconds since the row was written. A time from the future, or one that cannot be read, counts as
    now."""
    try:
        return max(0.0, (now - _instant(created_at)).total_seconds())
    except (ValueError, OverflowError, AttributeError):
        return 0.0


def _text(raw: bytes) -> str:
    return raw.decode()


def _list(raw: bytes) -> tuple[str, ...]:
    try:
        return _texts.decode(raw)
    except msgspec.MsgspecError:
        raw.decode()
        raise ValueError("is not a list of strings in JSON") from None


def _instant(raw: bytes) -> datetime:
    text = raw.decode()
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a time in ISO 8601") from None
    if at.tzinfo is None:
        raise ValueError("needs a time zone")
    return at.astimezone(UTC)
