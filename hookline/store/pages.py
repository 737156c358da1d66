"""Pages of listings. An iterator is a text that names the row after which a page starts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Generic, TypeVar

from msgspec import Struct

from hookline.clock import from_micros, to_micros
from hookline.errors import InvalidInput
from hookline.store.bounds import MAX_DIGITS

T = TypeVar("T")

_LAST_MICROS = to_micros(datetime(9000, 1, 1, tzinfo=UTC))


class Page(Struct, frozen=True, kw_only=True):
    """One page of a listing: at most `limit` rows after `iterator`, or before it if read backwards."""

    limit: int = 50
    iterator: str | None = None
    backwards: bool = False
    descending: bool = False  # reverse the order of a listing that `plan.by_text` reads; other listings ignore this


class Walk(Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a listing whose scan may stop before the page is full, for example because few rows match the filter.
    The rows are in the listing's order."""

    rows: list[T]
    # The key at which the scan stopped early. The next page starts after this key. None: the page is full, or the
    # listing has ended.
    end: str | None = None


def death(died_at: datetime, dead_id: int) -> str:
    """Return the iterator of a dead letter in the listing. The iterator stays valid after the dead letter is
    replayed."""
    return f"{to_micros(died_at)}_{dead_id}"


def after_death(iterator: str | None) -> tuple[datetime, int] | None:
    """Return the time of death and the id from an iterator of dead letters. None: start of the listing."""
    if iterator is None:
        return None
    at, _, number = iterator.partition("_")
    numbers = all(text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS for text in (at, number))
    if not numbers or int(at) > _LAST_MICROS:
        raise InvalidInput(f"the iterator {iterator[:40]!r} does not belong to this listing")
    return from_micros(int(at)), int(number)


def after_number(iterator: str | None) -> int | None:
    """Return the number from an iterator of a listing that is ordered by number. None: start of the listing, or its
    end if read backwards."""
    if iterator is None:
        return None
    if not (iterator.isascii() and iterator.isdigit() and len(iterator) <= MAX_DIGITS):
        raise InvalidInput(f"the iterator {iterator[:40]!r} does not belong to this listing")
    return int(iterator)
