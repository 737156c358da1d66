"""Acknowledge, then process: the accepted events and their handlers, on both engines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from hookline.receive import Headers, Webhook, inbox
from hookline.receive.inbox import Event, InboxWorker, InvalidInput, NotInTransaction
from tests.receive.inbox.shop import Shop, pay
from tests.receive.inbox.working import QUICK, dead, worker


def webhook(**fields: Any) -> Webhook:
    given: dict[str, Any] = {"id": "msg_1", "event_type": "order.paid", "timestamp": None, "body": b'{"total": 7}'}
    return Webhook(**(given | {"headers": Headers({"X-Shop": "7", "Authorization": "secret"})} | fields))


# ── accept ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_handler_gets_the_accepted_event(any_shop: Shop) -> None:
    seen: list[Event] = []
    with closing(any_shop.connect()) as conn:
        assert inbox.accept(conn, webhook(), scope="acme", headers=["X-Shop", "X-Missing"]) is True
        assert inbox.accept(conn, webhook(), scope="acme") is False
        assert inbox.accept(conn, webhook(), scope="other") is True
        conn.commit()
    assert worker(any_shop, lambda _, event: seen.append(event)).drain() == 2
    first = seen[0]
    assert (first.scope, first.key, first.event_type, first.attempt) == ("acme", "msg_1", "order.paid", 1)
    assert (first.body, first.json(), first.headers) == (b'{"total": 7}', {"total": 7}, {"x-shop": "7"})
    assert first.json(dict[str, int]) == {"total": 7}
    assert (seen[1].scope, seen[1].headers) == ("other", {})


def test_a_body_of_bytes_is_stored_without_changes(any_shop: Shop) -> None:
    body = bytes(range(256)) * 3
    seen: list[bytes] = []
    any_shop.accept("k", body=body)
    worker(any_shop, lambda _, event: seen.append(event.body)).drain()
    assert seen == [body]


def test_a_rollback_removes_the_accepted_event(any_shop: Shop) -> None:
    with closing(any_shop.connect()) as conn:
        inbox.accept(conn, b"{}", key="k")
        conn.rollback()
    assert worker(any_shop).drain() == 0
    assert any_shop.accept("k") == [True]


def test_a_copy_of_a_finished_event_is_still_a_copy(any_shop: Shop) -> None:
    assert any_shop.accept("k", "k") == [True, False]
    assert worker(any_shop).drain() == 1
    assert any_shop.accept("k") == [False]
    assert worker(any_shop).drain() == 0
    assert any_shop.payments() == ["k"]
    [(body, token)] = any_shop.rows("SELECT body, token FROM hookline_inbox_event")
    assert (body, token) == (None, None)
    day = any_shop.report().days[-1]
    assert (day.arrivals, day.first, day.duplicates_stopped, day.effects, day.duplicate_effects) == (3, 1, 2, 1, 0)


def test_the_handler_may_use_the_same_key_for_once(any_shop: Shop) -> None:
    def handler(conn: Any, event: Event) -> None:
        with inbox.once(conn, event.key) as first:
            if first:
                pay(conn, event)

    any_shop.accept("k")
    assert worker(any_shop, handler).drain() == 1
    assert any_shop.payments() == ["k"]
    assert any_shop.report().duplicate_effects == 0


@pytest.mark.parametrize(
    ("given", "fields", "fault"),
    [
        (b"{}", {}, "key"),
        (webhook(id=None), {}, "key"),
        (webhook(), {"key": ""}, "key"),
        (webhook(), {"event_type": "x" * 257}, "event_type"),
        ("{}", {"key": "k"}, "body"),
        (b"{}", {"key": "k", "headers": ["X-Shop"]}, "headers"),
    ],
)
def test_invalid_events_are_refused_by_accept(any_shop: Shop, given: Any, fields: dict[str, Any], fault: str) -> None:
    with closing(any_shop.connect()) as conn, pytest.raises(InvalidInput, match=fault):
        inbox.accept(conn, given, **fields)


def test_accepting_outside_a_transaction_is_refused(any_shop: Shop) -> None:
    with closing(any_shop.connect()) as conn:
        if any_shop.engine == "sqlite":
            conn.isolation_level = None
        else:
            conn.autocommit = True
        with pytest.raises(NotInTransaction):
            inbox.accept(conn, b"{}", key="k")


# ── handlers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_type_has_its_handler_and_other_types_share_one(any_shop: Shop) -> None:
    seen: list[tuple[str, str]] = []
    any_shop.accept("a", event_type="order.paid")
    any_shop.accept("b", event_type="order.lost")
    with closing(any_shop.connect()) as conn:
        inbox.accept(conn, b"{}", key="c")  # An event without a type.
        conn.commit()
    handlers: dict[str, Any] = {
        "order.paid": lambda _, event: seen.append(("paid", event.key)),
        "*": lambda _, event: seen.append(("rest", event.key)),
    }
    InboxWorker(any_shop.connect, handlers, **QUICK).drain()
    assert seen == [("paid", "a"), ("rest", "b"), ("rest", "c")]


def test_an_event_without_a_handler_is_retried_and_then_dead(any_shop: Shop) -> None:
    any_shop.accept("k", event_type="order.lost")
    assert InboxWorker(any_shop.connect, {"order.paid": pay}, **QUICK).drain() == 3
    [found] = dead(any_shop)
    assert "no handler for order.lost" in found.error


def test_a_handler_that_raises_has_no_effect_and_is_called_again(any_shop: Shop) -> None:
    attempts: list[int] = []

    def handler(conn: Any, event: Event) -> None:
        pay(conn, event)
        attempts.append(event.attempt)
        if event.attempt < 3:
            raise ValueError("not yet")

    any_shop.accept("k")
    assert worker(any_shop, handler).drain() == 3
    assert (attempts, any_shop.payments(), any_shop.states()) == ([1, 2, 3], ["k"], {"k": "done"})
    assert any_shop.report().effects == 1


def test_a_database_error_in_the_handler_is_retried_like_any_failure(any_shop: Shop) -> None:
    def handler(conn: Any, event: Event) -> None:
        pay(conn, event)
        if event.attempt == 1:
            conn.execute("INSERT INTO no_such_table VALUES (1)")

    any_shop.accept("k")
    assert worker(any_shop, handler).drain() == 2
    assert any_shop.payments() == ["k"]


def test_events_that_always_fail_do_not_block_others(any_shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    # The log text contains half a surrogate pair, which would break the test report of the whole run.
    caplog.set_level(logging.CRITICAL, "hookline.inbox")

    def handler(conn: Any, event: Event) -> None:
        if event.key.startswith("poison"):
            raise ValueError("bad \0 byte \ud800 in it")
        pay(conn, event)

    any_shop.accept("poison-1", "a", "poison-2", "b", "c")
    worker(any_shop, handler).drain()
    assert any_shop.payments() == ["a", "b", "c"]
    found = dead(any_shop)
    assert [(one.key, one.attempts, one.reason) for one in found] == [
        ("poison-1", 3, "attempts_exhausted"),
        ("poison-2", 3, "attempts_exhausted"),
    ]
    assert found[0].error == "ValueError: bad \ufffd byte ? in it"
    assert found[0].body == b"{}"
    assert any_shop.report().dead == 2


@pytest.mark.parametrize(
    "ending",
    [
        SystemExit(3),
        # A loop inside the handler may raise this error. Timeouts of gevent are also no subclasses of Exception.
        asyncio.CancelledError(),
        type("Awkward", (BaseException,), {"__str__": lambda _: 1 / 0})(),
    ],
)
def test_no_exception_of_a_handler_ends_the_worker(any_shop: Shop, ending: BaseException) -> None:
    def handler(conn: Any, event: Event) -> None:
        if event.key == "a":
            raise ending
        pay(conn, event)

    any_shop.accept("a", "b")
    worker(any_shop, handler).drain()
    assert (any_shop.payments(), any_shop.states()) == (["b"], {"a": "dead", "b": "done"})


@pytest.mark.filterwarnings("ignore:coroutine")
def test_an_async_handler_on_a_sync_worker_is_a_failure(any_shop: Shop) -> None:
    async def handler(_conn: Any, _event: Event) -> None:
        pass

    any_shop.accept("k")
    worker(any_shop, handler).drain()
    [found] = dead(any_shop)
    assert "AsyncInboxWorker" in found.error


def test_a_commit_in_the_handler_also_commits_the_mark_of_the_event(
    shop_of: Callable[[str], Shop], caplog: pytest.LogCaptureFixture
) -> None:
    shop = shop_of("sqlite")

    def handler(conn: Any, event: Event) -> None:
        pay(conn, event)
        conn.commit()
        raise ValueError("after the commit")

    shop.accept("k")
    assert worker(shop, handler).drain() == 1
    assert (shop.payments(), shop.states()) == (["k"], {"k": "done"})
    [said] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said.startswith("'k': is not retried")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_session_that_the_handler_commits(
    shop_of: Callable[[str], Shop], engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLAlchemy then refuses the next statement. Its error must not mark the event as done."""
    shop = shop_of(engine)
    url = f"sqlite:///{shop.url}" if engine == "sqlite" else shop.url.replace("postgresql", "postgresql+psycopg", 1)
    bind = sa.create_engine(url, poolclass=sa.NullPool)

    def handler(session: Session, event: Event) -> None:
        session.execute(sa.text("INSERT INTO payments VALUES (:key)"), {"key": event.key})
        session.commit()

    shop.accept("k")
    assert InboxWorker(lambda: Session(bind), {"*": handler}, **QUICK).drain() == 1
    assert (shop.payments(), shop.states()) == (["k"], {"k": "done"})
    assert "'k': is not retried" in caplog.text


def test_a_handler_that_rolls_back_by_itself_is_a_failure(shop_of: Callable[[str], Shop]) -> None:
    shop = shop_of("sqlite")

    def handler(conn: Any, event: Event) -> None:
        conn.rollback()
        pay(conn, event)

    shop.accept("k")
    assert worker(shop, handler).drain() == 3
    assert (shop.payments(), shop.states()) == ([], {"k": "dead"})
    assert "rolled its transaction back" in dead(shop)[0].error
