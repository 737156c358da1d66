"""Listings: pages, walks, and the iterators by which they go on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Generic, TypeVar

from msgspec import Struct

from hookline.clock import from_micros, to_micros
from hookline.errors import InvalidInput
from hookline.store.protocols.bounds import MAX_DIGITS

T = TypeVar("T")

_LAST_MICROS = to_micros(datetime(9000, 1, 1, tzinfo=UTC))


class Page(Struct, frozen=True, kw_only=True):
    """Where a listing goes on: rows after (or, backwards, before) `iterator`, at most `limit`."""

    limit: int = 50
    iterator: str | None = None
    backwards: bool = False
    descending: bool = False  # the listing from its end: of applications, event types and endpoints


class Walk(Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a listing whose filter may match rarely: what one request found of it, in the listing's order."""

    rows: list[T]
    end: str | None = None  # there may be more: go on behind this key. None: a whole page, or all there is


def death(died_at: datetime, dead_id: int) -> str:
    """A place in the listing of dead letters: the iterator. It stays one when the letter there is replayed."""
    return f"{to_micros(died_at)}_{dead_id}"


def after_death(iterator: str | None) -> tuple[datetime, int] | None:
    """When the dead letter at that place died, and its id; None: from the start of the listing."""
    if iterator is None:
        return None
    at, _, number = iterator.partition("_")
    if not all(text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS for text in (at, number)):
        raise InvalidInput(f"the iterator {iterator[:40]!r} is none of this listing's")
    if int(at) > _LAST_MICROS:
        raise InvalidInput(f"the iterator {iterator[:40]!r} is none of this listing's")
    return from_micros(int(at)), int(number)


def after_number(iterator: str | None) -> int | None:
    """Where a listing by number goes on; None: from its start, or backwards from its end."""
    if iterator is None:
        return None
    if not (iterator.isascii() and iterator.isdigit() and len(iterator) <= MAX_DIGITS):
        raise InvalidInput(f"the iterator {iterator[:40]!r} is none of this listing's")
    return int(iterator)
