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
    attempt: int  # number of this attempt, from 1
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
    reason: str  # attempts_exhausted or budget_exhausted
    error: str  # the last line of the last attempt's traceback
    accepted_at: datetime
    died_at: datetime


class Claim(Struct, frozen=True, kw_only=True):
    """An event that one worker has claimed. No other worker takes it before the lease ends."""

    id: int
    token: str
    age: float  # seconds of the event's time budget that are used
    event: Event


class Day(Struct, frozen=True, kw_only=True):
    """The counts of one UTC day."""

    day: str  # such as 2026-01-31
    first: int = 0  # webhooks that arrived for the first time
    duplicates_stopped: int = 0
    effects: int = 0
    duplicate_effects: int = 0  # effects that were not the first of their webhook; must be 0

    @property
    def arrivals(self) -> int:
        return self.first + self.duplicates_stopped


class Report(Struct, frozen=True, kw_only=True):
    days: tuple[Day, ...]  # oldest first, today last
    waiting: int  # accepted events that are not handled yet
    overdue: float  # seconds for which the oldest waiting event has been due
    dead: int

    @property
    def arrivals(self) -> int:
        return sum(day.arrivals for day in self.days)

    @property
    def first(self) -> int:
        return sum(day.first for day in self.days)

    @property
    def duplicates_stopped(self) -> int:
        return sum(day.duplicates_stopped for day in self.days)

    @property
    def effects(self) -> int:
        return sum(day.effects for day in self.days)

    @property
    def duplicate_effects(self) -> int:
        """The number of effects that were not the first of their webhook. It must be 0."""
        return sum(day.duplicate_effects for day in self.days)

    def as_prometheus(self) -> str:
        """Return the totals of all days in the Prometheus text format."""
        span = f"in the last {len(self.days)} days"
        gauges: list[tuple[str, str, float]] = [
            ("arrivals", f"Webhooks that arrived {span}, copies included", self.arrivals),
            ("first", f"Webhooks that arrived for the first time {span}", self.first),
            ("duplicates_stopped", f"Copies that had no effect {span}", self.duplicates_stopped),
            ("effects", f"Effects {span}", self.effects),
            ("duplicate_effects", f"Second effects of a webhook {span}: must be 0", self.duplicate_effects),
            ("waiting", "Accepted events that are not handled yet", self.waiting),
            ("overdue_seconds", "Seconds for which the oldest waiting event has been due", self.overdue),
            ("dead", "Accepted events that are dead", self.dead),
        ]
        return "".join(_gauge(f"hookline_inbox_{name}", text, value) for name, text, value in gauges)


def _gauge(name: str, text: str, value: float) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} gauge\n{name} {value}\n"
