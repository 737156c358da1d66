"""`once` behaves the same on every kind of connection, with real databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, cast

import pytest

from hookline.receive import inbox
from hookline.receive.inbox import InvalidInput, NotInTransaction, UnknownConnection
from tests.outbox.desks import Desk
from tests.receive.inbox.shop import Shop

pytestmark = pytest.mark.filterwarnings("ignore:Accessing the database during app initialization")

KEY = "msg_1 naïve 漢字 😀 100% %s :x ? $1 \\ \" '"


class Oops(Exception):
    pass


@asynccontextmanager
async def once(desk: Desk, key: str, *scope: str) -> AsyncIterator[bool]:
    if desk.is_async:
        async with inbox.once_async(desk.conn, key, *scope) as first:
            yield first
    else:
        with inbox.once(desk.conn, key, *scope) as first:
            yield first


async def pay(desk: Desk, key: str, *scope: str) -> bool:
    """Make a payment if the event is the first with its key. Return whether it is."""
    async with once(desk, key, *scope) as first:
        if first:
            await desk.execute("INSERT INTO payments VALUES ('paid')")
    return first


async def pay_and_fail(desk: Desk, key: str) -> None:
    async with once(desk, key) as first:
        assert first
        await desk.execute("INSERT INTO payments VALUES ('undone')")
        raise Oops


async def test_commit_keeps_the_key_and_its_effect(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    assert await pay(desk, KEY) is True
    assert (shop.recorded(), shop.payments()) == ([], [])  # Nothing is committed yet.
    await desk.commit()
    assert (shop.recorded(), shop.payments()) == ([("", KEY)], ["paid"])
    await desk.begin()
    assert await pay(desk, KEY) is False
    await desk.commit()
    assert shop.payments() == ["paid"]


async def test_rollback_frees_the_key(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    assert await pay(desk, KEY) is True
    await desk.rollback()
    assert (shop.recorded(), shop.payments(), shop.report().arrivals) == ([], [], 0)
    await desk.begin()
    assert await pay(desk, KEY) is True
    await desk.commit()
    assert shop.payments() == ["paid"]


async def test_the_block_runs_either_way(desk: Desk, shop: Shop) -> None:
    for _ in range(2):
        await desk.begin()
        async with once(desk, KEY):
            await desk.execute("INSERT INTO payments VALUES ('seen')")
        await desk.commit()
    assert shop.payments() == ["seen", "seen"]


async def test_the_same_key_of_another_scope_is_another_key(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    assert [await pay(desk, "k", *scope) for scope in ((), ("a",), ("b",), ("a",), ("",))] == [
        True,
        True,
        True,
        False,
        False,
    ]
    await desk.commit()
    assert shop.recorded() == [("", "k"), ("a", "k"), ("b", "k")]


async def test_a_key_is_first_only_once_in_a_transaction(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    assert [await pay(desk, key) for key in ("a", "b", "a", "a", "c")] == [True, True, False, False, True]
    await desk.commit()
    day = shop.report().days[-1]
    assert (day.arrivals, day.first, day.duplicates_stopped) == (5, 3, 2)
    assert (day.effects, day.duplicate_effects) == (3, 0)


async def test_a_savepoint_rolls_back_only_its_own_keys(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    await pay(desk, "before")
    await desk.nested(lambda: pay(desk, "undone"), undo=True)
    await desk.nested(lambda: pay(desk, "kept"), undo=False)
    assert await pay(desk, "undone") is True
    await desk.commit()
    assert shop.recorded() == [("", "before"), ("", "kept"), ("", "undone")]
    assert len(shop.payments()) == 3


async def test_a_block_that_raises_keeps_neither_key_nor_effect_even_if_the_transaction_commits(
    desk: Desk, shop: Shop
) -> None:
    await desk.begin()
    await desk.execute("INSERT INTO payments VALUES ('earlier')")
    with pytest.raises(Oops):
        await pay_and_fail(desk, KEY)
    await desk.execute("INSERT INTO payments VALUES ('later')")
    await desk.commit()
    assert (shop.recorded(), shop.payments()) == ([], ["earlier", "later"])
    await desk.begin()
    assert await pay(desk, KEY) is True
    await desk.commit()


async def test_a_database_error_in_the_block_is_passed_on(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    with pytest.raises(Exception, match="no_such_table"):
        async with once(desk, KEY):
            await desk.execute("INSERT INTO no_such_table VALUES (1)")
    await desk.rollback()
    assert (shop.recorded(), shop.report().arrivals) == ([], 0)


async def test_a_connection_that_commits_by_itself_is_refused(desk: Desk, shop: Shop) -> None:
    await desk.commit_by_itself()
    with pytest.raises(NotInTransaction, match=r"commit"):
        await pay(desk, KEY)
    assert (shop.recorded(), shop.payments()) == ([], [])
    await desk.execute("INSERT INTO payments VALUES ('still good')")
    assert shop.payments() == ["still good"]


async def test_an_invalid_key_is_refused_and_the_transaction_stays_usable(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    await desk.execute("INSERT INTO payments VALUES ('earlier')")
    wrong: list[Any] = ["", "x" * 257, "a\0b", "\ud800", None, 7, b"k"]
    for key in wrong:
        with pytest.raises(InvalidInput, match="key"):
            await pay(desk, key)
    with pytest.raises(InvalidInput, match="no id of its own; give an id"):
        await pay(desk, cast("str", None))
    for scope in wrong[1:]:
        with pytest.raises(InvalidInput, match="scope"):
            await pay(desk, "k", scope)
    assert await pay(desk, "😀" * 256, "😀" * 256) is True  # the maximum length of a key and of a scope
    await desk.commit()
    assert shop.payments() == ["earlier", "paid"]


async def test_an_enum_member_equals_its_text(desk: Desk, shop: Shop) -> None:
    class Sender(StrEnum):
        STRIPE = "stripe"

    await desk.begin()
    assert await pay(desk, "k", Sender.STRIPE) is True
    assert await pay(desk, "k", "stripe") is False
    await desk.commit()


async def test_the_error_names_the_async_or_sync_variant(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    desk.is_async = not desk.is_async
    with pytest.raises(UnknownConnection, match=r"call the function whose name"):
        await pay(desk, KEY)
    await desk.commit()
    assert shop.recorded() == []


async def test_missing_tables_give_the_drivers_own_error_with_a_hint(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    await desk.execute("ALTER TABLE hookline_inbox RENAME TO elsewhere")
    with pytest.raises(Exception, match="hookline_inbox") as failed:
        await pay(desk, KEY)
    assert type(failed.value).__module__.partition(".")[0] == type(desk.conn).__module__.partition(".")[0]
    assert "create_table" in "\n".join(failed.value.__notes__)
    await desk.rollback()


async def test_the_tables_are_made_in_the_open_transaction(desk: Desk, shop: Shop) -> None:
    create = inbox.create_table_async if desk.is_async else inbox.create_table
    tables = [row[0] for row in shop.rows(_TABLES[shop.engine])]
    shop.run(*(f"DROP TABLE {table}" for table in tables))
    await desk.begin()
    for _ in range(2):  # Creating the tables a second time changes nothing.
        made = create(desk.conn)
        if asyncio.iscoroutine(made):
            await made
    assert await pay(desk, KEY) is True
    await desk.commit()
    assert [row[0] for row in shop.rows(_TABLES[shop.engine])] == tables
    assert shop.recorded() == [("", KEY)]


_TABLES = {
    "postgres": r"SELECT relname::text FROM pg_class WHERE relname LIKE 'hookline\_inbox%' AND relkind = 'r' ORDER BY 1",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'hookline^_inbox%' ESCAPE '^' ORDER BY 1",
}
