"""The number that must be zero, and those beside it. Counted from the rows, never from what the code believes it did."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from msgspec import Struct

from hookline import clock
from hookline.receive.inbox import adapters, plans
from hookline.receive.inbox.checks import checked_days
from hookline.receive.inbox.model import Day


class Report(Struct, frozen=True, kw_only=True):
    days: tuple[Day, ...]  # oldest first; the last one is today
    waiting: int  # accepted events that are not done
    overdue: float  # seconds that the oldest of them has been waiting for a worker
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
        """Must be 0."""
        return sum(day.duplicate_effects for day in self.days)

    def as_prometheus(self) -> str:
        """In Prometheus's text format, over all the days together."""
        span = f"in the last {len(self.days)} days"
        gauges: list[tuple[str, str, float]] = [
            ("arrivals", f"Webhooks that arrived {span}, copies included", self.arrivals),
            ("first", f"Webhooks that arrived for the first time {span}", self.first),
            ("duplicates_stopped", f"Copies that had no effect {span}", self.duplicates_stopped),
            ("effects", f"Effects {span}", self.effects),
            (
                "duplicate_effects",
                f"Effects of a webhook that had had one before {span}: must be 0",
                self.duplicate_effects,
            ),
            ("waiting", "Accepted events that are not done", self.waiting),
            ("overdue_seconds", "How long the oldest of them has been waiting for a worker", self.overdue),
            ("dead", "Accepted events that were given up", self.dead),
        ]
        return "".join(_gauge(f"hookline_inbox_{name}", text, value) for name, text, value in gauges)


def report(conn: Any, days: int = 7) -> Report:
    """What came and what came of it, by days of UTC. Keys are counted while they are kept, 30 days unless told otherwise."""
    on = adapters.of(conn)
    found = plans.run(on, plans.days(on.engine, clock.wall(), checked_days(days)))
    return _made(days, found, plans.run(on, plans.backlog(on.engine, clock.wall())))


async def report_async(conn: Any, days: int = 7) -> Report:
    on = adapters.of_async(conn)
    found = await plans.run_async(on, plans.days(on.engine, clock.wall(), checked_days(days)))
    return _made(days, found, await plans.run_async(on, plans.backlog(on.engine, clock.wall())))


def _made(days: int, found: dict[str, Day], backlog: tuple[str, int, float, int]) -> Report:
    """Every day, also those on which nothing happened."""
    today, waiting, overdue, dead = backlog
    last = date.fromisoformat(today)
    names = [(last - timedelta(days=ago)).isoformat() for ago in reversed(range(days))]
    empty = {name: Day(day=name, first=0, duplicates_stopped=0, effects=0, duplicate_effects=0) for name in names}
    return Report(
        days=tuple(found.get(name, empty[name]) for name in names), waiting=waiting, overdue=overdue, dead=dead
    )


def _gauge(name: str, text: str, value: float) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} gauge\n{name} {value}\n"
