"""What the inbox hands out, frozen. Instants are aware datetimes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar, overload

import msgspec
from msgspec import Struct

T = TypeVar("T")


class Event(Struct, frozen=True, kw_only=True):
    """An event that was accepted, as a handler gets it."""

    scope: str
    key: str  # the webhook's id: give it on to whoever can recognise a copy themselves
    event_type: str | None
    body: bytes  # as it came
    headers: dict[str, str]  # those that `accept` was told to keep, by their names in lower case
    attempt: int  # 1 is the first
    accepted_at: datetime

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, kind: type[T]) -> T: ...
    def json(self, kind: Any = Any) -> Any:
        """The body, as plain values or as your own type."""
        return msgspec.json.decode(self.body, type=kind)


class DeadEvent(Struct, frozen=True, kw_only=True):
    """An event whose handler gave up on it. `replay` and `resolve` take its id."""

    id: int
    scope: str
    key: str
    event_type: str | None
    body: bytes
    headers: dict[str, str]
    attempts: int
    reason: str  # attempts_exhausted, budget_exhausted
    error: str  # the last line of the last attempt's traceback
    accepted_at: datetime
    died_at: datetime


class Claim(Struct, frozen=True, kw_only=True):
    """An event that one worker has for itself, for a while."""

    id: int
    token: str
    age: float  # seconds of its time budget that are gone
    event: Event


class Day(Struct, frozen=True, kw_only=True):
    """One day of UTC."""

    day: str  # 2026-01-31
    first: int  # keys that came for the first time
    duplicates_stopped: int
    effects: int
    duplicate_effects: int  # effects of a key that had had one before: must be 0

    @property
    def arrivals(self) -> int:
        return self.first + self.duplicates_stopped
