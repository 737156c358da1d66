"""Options and arguments that several commands share, and the functions that read their values."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Struct
from typer import Argument, Option

from hookline import ids
from hookline.config import urls
from hookline.errors import InvalidInput
from hookline.rules import units
from hookline.services import lookup
from hookline.store import Page

LARGEST_NUMBER = 10**18 - 1  # the largest id that an option accepts
MAX_DAYS = 36_500.0

Json = Annotated[bool, Option("--json", help="Print JSON.")]
Org = Annotated[str, Option("--org", help="The organization, if there are several.", show_default="the default one")]
App = Annotated[str | None, Option("--app", help="Only this application (id or uid).")]
OnlyApp = Annotated[str | None, Option("--app", help="For this application only (id or uid).")]
AppArgument = Annotated[str, Argument(metavar="APP", help="The application's id or uid.")]
Limit = Annotated[int, Option("--limit", min=1, max=1000, help="The maximum number of rows.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")]

DEFAULT_ORG_ID = ids.DEFAULT_ORG

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


class EndpointRef(lookup.EndpointRef, frozen=True):
    """An endpoint as the user names it: by id, or by uid with `--app`."""

    endpoint: Annotated[str, Argument(metavar="ENDPOINT", help="The endpoint's id; or its uid, with --app.")]
    app: App = None


class Paging(Struct, frozen=True):
    """One page of a list."""

    limit: Limit = 50
    after: Annotated[str | None, Option(help="Continue after this id, the last of a page.")] = None

    @property
    def page(self) -> Page:
        return Page(limit=self.limit, iterator=None if self.after is None else str(self.after))


class NumberPaging(Paging, frozen=True):
    """One page of a list whose rows have numbers as ids."""

    after: Annotated[
        int | None,
        Option(min=0, max=LARGEST_NUMBER, help="Continue after this id, the last of a page."),
    ] = None  # type: ignore[assignment]  # in the base class, `after` is a text


def read_instant(text: str, now: datetime) -> datetime:
    """Read `2026-01-31T12:00:00Z`, or a time before `now`: `90s`, `15m`, `2h`, `7d`."""
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
    """Read a duration such as `0`, `90s`, `24h` or `7d`, up to `longest` seconds."""
    try:
        return timedelta(seconds=units.duration(0, longest)(text.strip()))
    except ValueError as takes:
        raise InvalidInput(f"{option} takes {takes}") from None


def check_database_url(field: str, url: str) -> None:
    try:
        urls.database_url(url)
    except ValueError as takes:
        raise InvalidInput(f"takes {takes}", field=field) from None


def check_number(option: str, value: float | None, highest: float) -> None:
    """Refuse numbers out of range. The option parser's own `min` and `max` let `nan` pass."""
    if value is not None and not (math.isfinite(value) and 0 <= value <= highest):
        raise InvalidInput(f"{option} takes a number from 0 to {highest:g}")
