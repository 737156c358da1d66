"""Names, texts, numbers and instants that callers give. Pure; each check raises `InvalidInput` with one clear line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from hookline.errors import InvalidInput

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)  # instants beyond these do not survive a change of time zone
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
    if value in (".", ".."):  # a step of a path that every client resolves away: nothing of that name could be reached
        raise InvalidInput(f"{value!r} cannot stand in a URL", field=field)
    return value


def check_names(field: str, values: Sequence[str], most: int, longest: int) -> None:
    check_listed(field, values, most)
    for value in values:
        check_name(field, value, longest)


def check_listed(field: str, values: Sequence[str], most: int) -> None:
    if not 1 <= len(values) <= most:
        raise InvalidInput(f"give 1 to {most}, or leave it out", field=field)
    if len(set(values)) != len(values):
        raise InvalidInput("has the same entry twice", field=field)


def check_text(field: str, value: str, longest: int, shortest: int = 0) -> str:
    """Text that both databases can hold: PostgreSQL takes no NUL, and no encoding takes half a surrogate pair."""
    if not shortest <= len(value) <= longest:
        raise InvalidInput(f"must be {shortest} to {longest} characters long", field=field)
    if "\x00" in value or not _encodable(value):
        raise InvalidInput("has a NUL or a lone surrogate", field=field)
    return value


def one_line(text: str) -> str:
    """For a record that people export and print: no line end, no escape, no letter that turns the order of others."""
    return "".join(each if each.isprintable() else " " for each in text).strip()


def without_query(url: str) -> str:
    """For a record that outlives the endpoint: a query may hold a token."""
    rest, asked, _ = url.partition("?")
    return f"{rest}?…" if asked else rest


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:60] + "…")


def check_number(field: str, value: float, lowest: float, highest: float) -> None:
    """Also refuses NaN, which no comparison holds for, and booleans, which are whole numbers to Python."""
    if isinstance(value, bool) or not math.isfinite(value) or not lowest <= value <= highest:
        raise InvalidInput(f"{value} is not a number from {lowest:g} to {highest:g}", field=field)


def check_whole(field: str, value: int, lowest: int, highest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise InvalidInput(f"{value} is not a whole number from {lowest} to {highest}", field=field)


def check_instant(field: str, value: datetime) -> datetime:
    if value.tzinfo is None:
        raise InvalidInput("needs a time zone", field=field)
    if not EARLIEST <= value <= LATEST:
        raise InvalidInput(f"is not between the years {EARLIEST.year} and {LATEST.year}", field=field)
    return value


def lasting(seconds: float) -> str:
    """`90` → `1 min 30 s`: the two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    rest, parts = round(seconds), []
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])


def clean(text: str, keep: str = "") -> str:
    """Escape control characters: an endpoint's answer must not move the operator's cursor or forge a line."""
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape").decode()
        for letter in text
    )
