"""Options and arguments that several commands have, and the readers of what people type into them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from hookline import ids
from hookline.errors import InvalidInput
from hookline.rules import units

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Org = Annotated[
    str, typer.Option("--org", help="The organization, where there are several.", show_default="the default one")
]
App = Annotated[str | None, typer.Option("--app", help="Only this application (id or uid).")]
Endpoint = Annotated[str, typer.Argument(metavar="ENDPOINT", help="Its id; its uid where --app is given.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Most rows.")]
After = Annotated[str | None, typer.Option("--after", help="Go on after this id, the last one of the page before.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

DEFAULT_ORG_ID = ids.DEFAULT_ORG

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


def read_instant(text: str, now: datetime) -> datetime:
    """`2026-01-31T12:00:00Z`, or how long ago: `90s`, `15m`, `2h`, `7d`."""
    found = _SPAN.fullmatch(text.strip())
    try:
        if found is not None:
            return now - timedelta(seconds=float(found[1]) * _SECONDS[found[2]])
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{text!r} is outside of the years 1 to 9999") from None
    except ValueError:
        raise InvalidInput(
            f"{text!r} is not an instant: give 2026-01-31T12:00:00Z, or how long ago: 15m, 2h, 7d"
        ) from None


def read_span(option: str, text: str, longest: float) -> timedelta:
    """`0`, `90s`, `24h`, `7d`."""
    try:
        return timedelta(seconds=units.duration(0, longest)(text.strip()))
    except ValueError as takes:
        raise InvalidInput(f"{option} takes {takes}") from None


def check_number(option: str, value: float, highest: float) -> float:
    """What the parser of options lets through: `nan` is in no range, and is not refused by one."""
    if not (math.isfinite(value) and 0 <= value <= highest):
        raise InvalidInput(f"{option} takes a number from 0 to {highest:g}")
    return value
