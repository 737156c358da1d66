"""The data types of the inbox. They are frozen, and their datetimes have a time zone."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar, overload

import msgspec
from msgspec import Struct

T = TypeVar("T")


class Event(Struct, frozen=True, kw_only=True):
    """An accepted event, as its handler gets it."""

    scope: str
    key: str  # the webhook's id: pass it on to services that can deduplicate by it
    event_type: str | None
    body: bytes  # the bytes of the request
    headers: dict[str, str]  # the headers that `accept` was asked to keep, with names in lower case
    attempt: int  # 1 is the first
    accepted_at: datetime

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, kind: type[T]) -> T: ...
    def json(self, kind: Any = Any) -> Any:
        """Return the decoded body, as plain values or as your own type."""
        return msgspec.json.decode(self.body, type=kind)


class DeadEvent(Struct, frozen=True, kw_only=True):
    """An event that is no longer retried. `replay` and `resolve` take its id."""

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
    """An event that one worker has claimed. No other worker takes it before the lease ends."""

    id: int
    token: str
    age: float  # seconds of its time budget that are used
    event: Event


class Day(Struct, frozen=True, kw_only=True):
    """The numbers of one UTC day."""

    day: str  # 2026-01-31
    first: int  # keys that arrived for the first time
    duplicates_stopped: int
    effects: int
    duplicate_effects: int  # effects of keys that already had one; must be 0

    @property
    def arrivals(self) -> int:
        return self.first + self.duplicates_stopped
