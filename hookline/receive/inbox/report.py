"""The report of the inbox: arrivals, duplicates and effects per day. All numbers are counted from the stored rows."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from msgspec import Struct

from hookline.outbox import adapters
from hookline.outbox.adapters.base import Adapter
from hookline.outbox.coroutines import run_sync
from hookline.receive.inbox import queries
from hookline.receive.inbox.checks import checked_days
from hookline.receive.inbox.model import Day


class Report(Struct, frozen=True, kw_only=True):
    days: tuple[Day, ...]  # oldest first, today last
    waiting: int  # accepted events that are not handled yet
    overdue: float  # seconds for which the oldest of them has been due
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
        """The number of effects of webhooks that already had an effect. It must be 0."""
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


def report(conn: Any, days: int = 7) -> Report:
    """Return the webhooks and effects of the last UTC days. A key counts until it is deleted, by default after 30 days."""
    return run_sync(_report(adapters.of(conn), days))


async def report_async(conn: Any, days: int = 7) -> Report:
    return await _report(adapters.of_async(conn), days)


async def _report(on: Adapter, days: int) -> Report:
    """Include every day, also days without any webhook."""
    found = await queries.days(on, checked_days(days))
    today, waiting, overdue, dead = await queries.backlog(on)
    last = date.fromisoformat(today)
    names = [(last - timedelta(days=ago)).isoformat() for ago in reversed(range(days))]
    empty = {name: Day(day=name, first=0, duplicates_stopped=0, effects=0, duplicate_effects=0) for name in names}
    return Report(
        days=tuple(found.get(name, empty[name]) for name in names), waiting=waiting, overdue=overdue, dead=dead
    )


def _gauge(name: str, text: str, value: float) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} gauge\n{name} {value}\n"
