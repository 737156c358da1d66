"""Reads the times that people enter in forms. A time without a time zone is UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from hookline.errors import InvalidInput
from hookline.rules.checks import text as text_checks


def read(name: str, text: str) -> datetime:
    """Read a time such as `2026-03-01T12:30`. Without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text_checks.shown(text)} is not an instant such as 2026-03-01T12:30", field=name
        ) from None
    return text_checks.check_instant(name, found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
