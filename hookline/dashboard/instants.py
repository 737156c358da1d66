"""Instants that people type. A browser sends them without a zone: that is UTC, unless the page's script says which."""

from __future__ import annotations

from datetime import UTC, datetime

from hookline import texts
from hookline.errors import InvalidInput


def read(name: str, text: str) -> datetime:
    """`2026-03-01T12:30`, with an offset or in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{texts.shown(text)} is not an instant such as 2026-03-01T12:30", field=name) from None
    return texts.check_instant(name, found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
