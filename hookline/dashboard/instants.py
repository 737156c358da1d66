"""Instants that people type. A browser sends them without a zone: that is UTC, unless the page's script says which."""

from __future__ import annotations

from datetime import UTC, datetime

from hookline.errors import InvalidInput
from hookline.rules.checks import text as text_checks


def read(name: str, text: str) -> datetime:
    """`2026-03-01T12:30`, with an offset or in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text_checks.shown(text)} is not an instant such as 2026-03-01T12:30", field=name
        ) from None
    return text_checks.check_instant(name, found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
