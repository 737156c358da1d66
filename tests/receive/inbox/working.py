"""Helpers that create workers with short delays and list dead events."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from hookline.model.policy import RetryPolicy, Strategy
from hookline.receive import inbox
from hookline.receive.inbox import Event, InboxWorker
from tests.receive.inbox.shop import Shop, pay

AT_ONCE = RetryPolicy(strategy=Strategy.FIXED, schedule=(0.0,), max_attempts=3)
QUICK: dict[str, Any] = {"policy": AT_ONCE, "poll": 0.02, "keep": None}
PATIENCE = 60


def worker(shop: Shop, handler: Callable[[Any, Event], Any] = pay, **settings: Any) -> InboxWorker:
    return InboxWorker(shop.connect, {"*": handler}, **(QUICK | settings))


def dead(shop: Shop) -> list[inbox.DeadEvent]:
    with closing(shop.connect()) as conn:
        return inbox.dead(conn)


def make_due(shop: Shop, key: str, seconds_ago: int) -> None:
    at = {
        "postgres": f"now() - interval '{seconds_ago} seconds'",
        "sqlite": f"(CAST(strftime('%s', 'now') AS integer) - {seconds_ago}) * 1000000",
    }
    shop.run(f"UPDATE hookline_inbox_event SET due_at = {at[shop.engine]} WHERE key = '{key}'")
