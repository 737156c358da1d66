"""Handlers that fail and workers that die, on both engines."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from hookline.model.policy import RetryPolicy, Strategy
from hookline.receive import inbox
from hookline.receive.inbox import Event, InboxWorker
from tests.receive.inbox.shop import Shop, pay
from tests.receive.inbox.working import PATIENCE, QUICK, dead, make_due, worker


def test_retries_run_in_the_order_of_their_due_times(any_shop: Shop) -> None:
    """The event that failed first has the longest wait, so the others are retried before it."""
    seen: list[tuple[str, int]] = []

    def handler(_conn: Any, event: Event) -> None:
        seen.append((event.key, event.attempt))
        if event.attempt == 1:
            raise ValueError

    any_shop.accept("a")
    any_shop.accept("b")
    slow = RetryPolicy(strategy=Strategy.FIXED, schedule=(3600.0,), max_attempts=3)
    assert worker(any_shop, handler, policy=slow).drain() == 2
    assert worker(any_shop, handler).drain() == 0  # No event is due.
    make_due(any_shop, "a", seconds_ago=60)
    make_due(any_shop, "b", seconds_ago=120)
    assert worker(any_shop, handler).drain() == 2
    assert seen == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]


def test_full_jitter_never_waits_longer_than_its_maximum(any_shop: Shop) -> None:
    def handler(_conn: Any, _event: Event) -> None:
        raise ValueError

    any_shop.accept(*(f"k{number}" for number in range(20)))
    policy = RetryPolicy(base=1000.0, factor=3.0, cap=3600.0)
    assert worker(any_shop, handler, policy=policy).drain() == 20
    waits = [wait for (wait,) in any_shop.rows(_WAITS[any_shop.engine])]
    assert max(waits) <= 1000.01  # The clock of SQLite has a resolution of milliseconds.
    assert max(waits) - min(waits) > 300.0  # The retries are spread over time.


_WAITS = {
    "postgres": "SELECT extract(epoch FROM due_at - now())::float8 FROM hookline_inbox_event",
    "sqlite": "SELECT due_at / 1e6 - (julianday('now') - 2440587.5) * 86400 FROM hookline_inbox_event",
}


def test_a_time_budget_ends_the_retries_but_never_before_the_first_attempt(any_shop: Shop) -> None:
    def handler(_conn: Any, _event: Event) -> None:
        raise ValueError("no")

    any_shop.accept("old", "new")
    ago = {"postgres": "now() - interval '2 hours'", "sqlite": "budget_from - 7200000000"}
    any_shop.run(f"UPDATE hookline_inbox_event SET budget_from = {ago[any_shop.engine]} WHERE key = 'old'")
    policy = RetryPolicy(strategy=Strategy.FIXED, schedule=(60.0,), max_attempts=50, max_age=3600.0)
    assert worker(any_shop, handler, policy=policy).drain() == 2
    assert [(one.key, one.reason, one.attempts) for one in dead(any_shop)] == [("old", "budget_exhausted", 1)]


def test_dead_events_are_replayed_or_resolved(any_shop: Shop) -> None:
    broken = True

    def handler(conn: Any, event: Event) -> None:
        if broken:
            raise ValueError
        pay(conn, event)

    any_shop.accept("a", "b", "c")
    worker(any_shop, handler).drain()
    found = dead(any_shop)
    with closing(any_shop.connect()) as conn:
        assert [one.key for one in inbox.dead(conn, after=found[0].id, limit=1)] == ["b"]
        assert inbox.replay(conn, [one.id for one in found[:2]]) == 2
        assert inbox.replay(conn, found[0].id) == 0  # The events are no longer dead.
        assert inbox.resolve(conn, found[2].id) == 1
        assert inbox.replay(conn, found[2].id) == 0
        conn.commit()
    broken = False
    assert worker(any_shop, handler).drain() == 2
    assert any_shop.payments() == ["a", "b"]
    assert any_shop.states() == {"a": "done", "b": "done", "c": "resolved"}
    assert any_shop.accept("c") == [False]
    assert dead(any_shop) == []


# ── workers that die ──────────────────────────────────────────────────────────────────────────────────────────────


class _Gone(KeyboardInterrupt):
    """Ends the worker at once without recording anything, as if the process had died."""


def _die(conn: Any, event: Event) -> None:
    pay(conn, event)
    raise _Gone


def test_another_worker_gets_the_event_of_a_dead_worker_after_the_lease(any_shop: Shop) -> None:
    any_shop.accept("k")
    with pytest.raises(_Gone):
        worker(any_shop, _die, lease=3600.0).drain()
    assert worker(any_shop).drain() == 0  # The lease has not expired yet.
    make_due(any_shop, "k", seconds_ago=0)
    assert worker(any_shop).drain() == 1
    assert any_shop.payments() == ["k"]


def test_an_event_that_kills_every_worker_becomes_dead(any_shop: Shop) -> None:
    any_shop.accept("k")
    for _ in range(3):
        with pytest.raises(_Gone):
            worker(any_shop, _die, lease=3600.0).drain()
        make_due(any_shop, "k", seconds_ago=0)
    assert worker(any_shop, _die).drain() == 1  # The event becomes dead without another call of the handler.
    [found] = dead(any_shop)
    assert (found.attempts, found.reason) == (3, "attempts_exhausted")
    assert found.error == "the worker ended before the handler did"
    assert any_shop.payments() == []


def test_on_postgres_a_live_handler_keeps_its_event_beyond_the_lease(shop_of: Callable[[str], Shop]) -> None:
    shop = shop_of("postgres")
    running, go_on = threading.Event(), threading.Event()

    def slow(conn: Any, event: Event) -> None:
        pay(conn, event)
        running.set()
        assert go_on.wait(PATIENCE)

    shop.accept("k")
    with worker(shop, slow, lease=0.001):
        assert running.wait(PATIENCE)
        assert worker(shop).drain() == 0
        go_on.set()
    assert (shop.payments(), shop.states()) == (["k"], {"k": "done"})


@pytest.mark.parametrize("other", ["has it", "has done it"])
def test_a_claim_that_was_lost_before_the_handler_began_does_nothing(
    shop_of: Callable[[str], Shop], caplog: pytest.LogCaptureFixture, other: str
) -> None:
    """A worker may be suspended between its claim and its handler for longer than the lease."""
    shop = shop_of("sqlite")
    shop.accept("k")

    def overtake() -> None:
        if other == "has it":
            shop.run("UPDATE hookline_inbox_event SET token = 'another one'", _FAR_AHEAD)
        else:
            assert worker(shop).drain() == 1

    class Standing(sqlite3.Connection):
        begun = 0

        def execute(self, statement: str, *values: Any) -> Any:  # type: ignore[override]
            if statement == "BEGIN IMMEDIATE":
                Standing.begun += 1
                if Standing.begun == 2:
                    overtake()
            return super().execute(statement, *values)

    slow = InboxWorker(lambda: sqlite3.connect(shop.url, factory=Standing), {"*": pay}, **(QUICK | {"lease": 1e-6}))
    with caplog.at_level(logging.WARNING):
        slow.drain()
    assert "another worker has it" in caplog.text
    paid = ["k"] if other == "has done it" else []
    assert (shop.payments(), shop.report().effects) == (paid, len(paid))


_FAR_AHEAD = "UPDATE hookline_inbox_event SET due_at = due_at + 3600000000"
