"""What differs between the engines: how their values become ours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Row(Protocol):
    """What both drivers return."""

    def __getitem__(self, name: str, /) -> Any: ...


class Reading(Struct, frozen=True):
    """How one engine's values become ours. None stays None."""

    instant: Callable[[Any], datetime]
    texts: Callable[[Any], tuple[str, ...]]


def maybe(read: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else read(value)
