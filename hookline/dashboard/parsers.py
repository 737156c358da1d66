"""Parsers of the texts that people type into forms and filters.

A parser takes the name of the field, for its error message, and the typed text.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from hookline.errors import InvalidInput
from hookline.rules.checks.text import check_instant, shown


def text(_name: str, typed: str) -> str:
    return typed


def optional(_name: str, typed: str) -> str | None:
    return typed or None


def number(name: str, typed: str) -> float | None:
    try:
        return float(typed) if typed else None
    except ValueError:
        raise InvalidInput(f"{shown(typed)} is not a number", field=name) from None


def whole(name: str, typed: str) -> int | None:
    if not typed:
        return None
    if not (typed.isascii() and typed.isdigit() and len(typed) < 10):
        raise InvalidInput(f"{shown(typed)} is not a whole number", field=name)
    return int(typed)


def words(_name: str, typed: str) -> tuple[str, ...] | None:
    """Read words that are separated by spaces or commas."""
    return tuple(typed.replace(",", " ").split()) or None


def numbers(name: str, typed: str) -> tuple[float, ...] | None:
    return tuple(number(name, each) or 0.0 for each in words(name, typed) or ()) or None


def metadata(name: str, typed: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(typed, type=dict[str, str]) if typed else {}
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        raise InvalidInput('is not a JSON object with text values, such as {"plan": "gold"}', field=name) from None


def instant(name: str, typed: str) -> datetime:
    """Read a time such as `2026-03-01T12:30`. Without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(typed)
    except ValueError:
        raise InvalidInput(f"{shown(typed)} is not an instant such as 2026-03-01T12:30", field=name) from None
    return check_instant(name, found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
