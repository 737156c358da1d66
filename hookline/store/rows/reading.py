"""How the values of each engine are converted to Python values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Row(Protocol):
    """A database row, as both drivers return it."""

    def __getitem__(self, name: str, /) -> Any: ...


class Reading(Struct, frozen=True):
    """The conversions of one engine. None stays None."""

    instant: Callable[[Any], datetime]
    texts: Callable[[Any], tuple[str, ...]]


def maybe(read: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else read(value)
