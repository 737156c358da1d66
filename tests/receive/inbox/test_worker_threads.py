"""Workers in threads: start, wake, stop, and loss of the database connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from hookline import clock
from hookline.errors import Conflict
from hookline.model.policy import RetryPolicy, Strategy
from hookline.receive import inbox
from hookline.receive.inbox import AsyncInboxWorker, Event, InboxWorker, InvalidInput
from hookline.receive.inbox.handling import Rules
from tests.receive.inbox.shop import Shop, pay
from tests.receive.inbox.working import PATIENCE, QUICK, worker


def test_threads_share_the_work_and_each_event_has_one_effect(any_shop: Shop) -> None:
    keys = [f"k{number:02}" for number in range(40)]
    left = threading.Semaphore(0)

    def handler(conn: Any, event: Event) -> None:
        pay(conn, event)
        left.release()

    with worker(any_shop, handler, threads=4):
        any_shop.accept(*keys)
        for _ in keys:
            assert left.acquire(timeout=PATIENCE)
    assert any_shop.payments() == keys
    assert any_shop.report().duplicate_effects == 0


def test_an_accept_in_this_process_wakes_the_worker(any_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    handled, asleep = threading.Event(), threading.Event()

    def for_an_hour(*_: Any) -> float:
        asleep.set()
        return 3600.0

    monkeypatch.setattr(Rules, "pause", for_an_hour)
    with worker(any_shop, lambda *_: handled.set()), closing(any_shop.connect()) as conn:
        assert asleep.wait(PATIENCE)
        any_shop.accept("k")
        ends = clock.monotonic() + PATIENCE
        while not handled.wait(0.02) and clock.monotonic() < ends:
            # The first notification may have come before the commit of the event, so the test sends more.
            inbox.accept(conn, b"", key="rings as well")
            conn.rollback()
    assert handled.is_set()


def test_stop_lets_the_handler_finish_and_claims_no_more_events(any_shop: Shop) -> None:
    running, go_on = threading.Event(), threading.Event()

    def slow(conn: Any, event: Event) -> None:
        running.set()
        assert go_on.wait(PATIENCE)
        pay(conn, event)

    any_shop.accept("a", "b")
    made = worker(any_shop, slow)
    made.start()
    assert running.wait(PATIENCE)
    assert made.stop(timeout=0) is False
    go_on.set()
    assert made.stop() is True
    assert (any_shop.payments(), any_shop.states()) == (["a"], {"a": "done", "b": "open"})
    with pytest.raises(Conflict):
        made.start()


def test_run_returns_once_it_was_stopped(any_shop: Shop) -> None:
    made = InboxWorker(any_shop.connect, {"*": lambda *_: made.stop(0)}, **QUICK)
    any_shop.accept("k")
    made.run()
    assert any_shop.states() == {"k": "done"}


def test_a_database_outage_does_not_end_the_worker(any_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    handled = threading.Event()
    tries: list[int] = []

    def connect() -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("nobody there")
        return any_shop.connect()

    any_shop.accept("k")
    with InboxWorker(connect, {"*": lambda *_: handled.set()}, **QUICK):
        assert handled.wait(PATIENCE)
    assert "nobody there" in caplog.text


def test_a_connection_that_breaks_in_the_handler_is_replaced(shop_of: Callable[[str], Shop]) -> None:
    shop = shop_of("postgres")
    handled = threading.Event()

    def handler(conn: Any, event: Event) -> None:
        pay(conn, event)
        if event.attempt == 1:
            shop.run(f"SELECT pg_terminate_backend({conn.info.backend_pid})")
        conn.execute("SELECT 1")
        handled.set()

    shop.accept("k")
    with worker(shop, handler, lease=0.05):
        assert handled.wait(PATIENCE)
    assert shop.payments() == ["k"]


def test_the_context_manager_of_a_pool_is_entered_and_exited(shop_of: Callable[[str], Shop]) -> None:
    shop = shop_of("postgres")
    conn = psycopg.connect(shop.url)
    lent: list[str] = []

    class Lending:
        def __enter__(self) -> psycopg.Connection:
            lent.append("out")
            return conn

        def __exit__(self, *_: object) -> None:
            lent.append("back")

    shop.accept("k")
    assert InboxWorker(Lending, {"*": pay}, **QUICK).drain() == 1
    assert (lent, conn.closed) == (["out", "back"], False)
    conn.close()


def test_the_worker_cleans_in_steps_until_nothing_is_left(any_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookline.receive.inbox.worker_loop.STEP", 2)
    monkeypatch.setattr("hookline.receive.inbox.worker_loop.CLEAN_EVERY", 3600.0)
    any_shop.run(*(f"INSERT INTO hookline_inbox (scope, key, first_at) {_LONG_AGO[any_shop.engine]}" for _ in "12345"))
    made = worker(any_shop, keep=timedelta(days=30))
    made.start()
    made._clean_at = 0.0  # Clean at once instead of within the first minute.
    while any_shop.recorded():
        pass  # Only the rows show the progress, so the test polls.
    assert made.stop()


_LONG_AGO = {
    "postgres": "VALUES ('', gen_random_uuid()::text, now() - interval '31 days')",
    "sqlite": "VALUES ('', hex(randomblob(8)), (CAST(strftime('%s', 'now') AS integer) - 31 * 86400) * 1000000)",
}


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"threads": 0}, "threads"),
        ({"lease": 0}, "lease"),
        ({"lease": float("nan")}, "lease"),
        ({"poll": -1}, "poll"),
        ({"keep": -1}, "older_than"),
        ({"policy": RetryPolicy(strategy=Strategy.DECORRELATED)}, "policy"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        InboxWorker(lambda: None, {"*": pay}, **settings)


@pytest.mark.parametrize("made", [InboxWorker, AsyncInboxWorker])
def test_a_url_in_place_of_a_connect_function_is_refused(made: Any) -> None:
    with pytest.raises(InvalidInput, match="connect"):
        made("postgresql://shop", {"*": pay})


@pytest.mark.parametrize("handlers", [{}, {"a": None}, {1: pay}, [pay], pay])
def test_wrong_handlers_are_refused(handlers: Any) -> None:
    with pytest.raises(InvalidInput, match="handlers"):
        InboxWorker(lambda: None, handlers)


def test_a_later_change_of_the_given_dict_does_not_change_the_handlers() -> None:
    given = {"*": pay}
    rules = Rules(handlers=given)
    given.clear()
    assert rules.handlers == {"*": pay}
