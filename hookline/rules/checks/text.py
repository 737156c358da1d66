"""Checks of names, text, numbers and times in requests. Each check raises `InvalidInput` with a message of one
line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from hookline.errors import InvalidInput

# Only times in this range are accepted. Extreme times may overflow when they are converted to another time zone.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LATEST = datetime(3000, 1, 1, tzinfo=UTC)

_NAME = re.compile(r"[a-zA-Z0-9\-_.]+", re.A)


def check_own_name(field: str, value: str, prefix: str) -> str:
    check_name(field, value)
    if value.startswith(prefix):
        raise InvalidInput(f"must not begin with {prefix!r}, as Hookline's own ids do", field=field)
    return value


def check_name(field: str, value: str, longest: int = 256) -> str:
    if not 1 <= len(value) <= longest or not _NAME.fullmatch(value):
        raise InvalidInput(f"{shown(value)} is not 1 to {longest} of the characters a-z A-Z 0-9 - _ .", field=field)
    if value in (".", ".."):  # HTTP clients remove these from URL paths, so the object could not be reached
        raise InvalidInput(f"{value!r} cannot stand in a URL", field=field)
    return value


def check_names(field: str, values: Sequence[str], limit: int, longest: int) -> None:
    check_listed(field, values, limit)
    for value in values:
        check_name(field, value, longest)


def check_listed(field: str, values: Sequence[str], limit: int) -> None:
    if not 1 <= len(values) <= limit:
        raise InvalidInput(f"give 1 to {limit}, or leave it out", field=field)
    if len(set(values)) != len(values):
        raise InvalidInput("has the same entry twice", field=field)


def check_text(field: str, value: str, longest: int, shortest: int = 0) -> str:
    """Check that both databases can store the text: PostgreSQL rejects NUL, and UTF-8 cannot encode a lone
    surrogate."""
    if not shortest <= len(value) <= longest:
        raise InvalidInput(f"must be {shortest} to {longest} characters long", field=field)
    if "\x00" in value or not _encodable(value):
        raise InvalidInput("has a NUL or a lone surrogate", field=field)
    return value


def one_line(text: str) -> str:
    """Replace all unprintable characters with spaces: line ends, terminal escapes, characters that reverse text
    direction."""
    return "".join(each if each.isprintable() else " " for each in text).strip()


def without_query(url: str) -> str:
    """Return the URL without its query, which may contain a token. The audit log, which outlives endpoints, stores
    the result."""
    base, mark, _ = url.partition("?")
    return f"{base}?…" if mark else base


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:60] + "…")


def check_number(field: str, value: float, lowest: float, highest: float) -> None:
    """Check that `value` lies between `lowest` and `highest`. NaN and booleans are refused too; Python counts
    booleans as integers."""
    if isinstance(value, bool) or not math.isfinite(value) or not lowest <= value <= highest:
        raise InvalidInput(f"{value} is not a number from {lowest:g} to {highest:g}", field=field)


def check_whole(field: str, value: int, lowest: int, highest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise InvalidInput(f"{value} is not a whole number from {lowest} to {highest}", field=field)
    return value


def check_instant(field: str, value: datetime) -> datetime:
    if value.tzinfo is None:
        raise InvalidInput("needs a time zone", field=field)
    if not EARLIEST <= value <= LATEST:
        raise InvalidInput(f"is not between the years {EARLIEST.year} and {LATEST.year}", field=field)
    return value


def lasting(seconds: float) -> str:
    """Format a duration with its two largest units: `90` → `1 min 30 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    rest, parts = round(seconds), []
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])


def clean(text: str, keep: str = "") -> str:
    """Escape control characters, except those in `keep`, so that an endpoint's response cannot move a terminal's
    cursor or fake a line of output."""
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape").decode()
        for letter in text
    )
