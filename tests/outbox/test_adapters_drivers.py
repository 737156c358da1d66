"""`publish` on sqlite3, psycopg, psycopg2 and asyncpg connections: modes, row types, cursors, and objects that are
refused."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
import pytest
from psycopg.rows import class_row, dict_row, scalar_row
from werkzeug.local import LocalProxy

from hookline import clock
from hookline.outbox import NotInTransaction, UnknownConnection, event, publish, publish_async, publish_many
from tests.outbox.conftest import PostgresShop, SqliteShop

ORDER = "INSERT INTO orders VALUES (7)"


# ── sqlite3 ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Modern(sqlite3.Connection):
    """A connection that has `autocommit=True`, as Python 3.12 can open it."""

    autocommit = True


@pytest.mark.parametrize("level", ["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_sqlite3_begins_a_transaction_in_every_isolation_level(sqlite_shop: SqliteShop, level: Any) -> None:
    with closing(sqlite3.connect(sqlite_shop.url, isolation_level=level)) as conn:
        publish(conn, "acme", "order.paid", {})
        assert conn.in_transaction
        assert (conn.isolation_level, conn.row_factory, conn.text_factory) == (level, None, str)
        conn.rollback()
    assert sqlite_shop.outbox() == []


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT mine"])
def test_a_transaction_begun_with_sql_is_accepted(sqlite_shop: SqliteShop, begin: str) -> None:
    with closing(sqlite3.connect(sqlite_shop.url, isolation_level=None)) as conn:
        conn.execute(begin)
        made = publish(conn, "acme", "order.paid", {})
        assert sqlite_shop.outbox() == []
        conn.execute("COMMIT")
    assert sqlite_shop.event_ids() == [made]


def test_sqlite3_with_autocommit_is_refused_until_it_has_begun(sqlite_shop: SqliteShop) -> None:
    with closing(sqlite3.connect(sqlite_shop.url, factory=Modern)) as conn:
        with pytest.raises(NotInTransaction, match="BEGIN"):
            publish(conn, "acme", "order.paid", {})
        conn.execute("BEGIN")
        publish(conn, "acme", "order.paid", {})
        conn.rollback()
    assert sqlite_shop.outbox() == []


def test_the_with_statement_of_sqlite3_commits_and_rolls_back(sqlite_shop: SqliteShop) -> None:
    with closing(sqlite3.connect(sqlite_shop.url)) as conn:
        with conn:
            made = publish(conn, "acme", "order.paid", {})
        with pytest.raises(ZeroDivisionError), conn:
            publish(conn, "acme", "order.paid", {"n": 1 // 0})
    assert sqlite_shop.event_ids() == [made]


def test_publish_disturbs_neither_an_open_cursor_nor_the_row_factory(sqlite_shop: SqliteShop) -> None:
    with closing(sqlite3.connect(sqlite_shop.url)) as conn:
        conn.row_factory = lambda cursor, row: {"n": row[0]}
        conn.executemany("INSERT INTO orders VALUES (?)", [(1,), (2,), (3,)])
        read = conn.execute("SELECT n FROM orders ORDER BY n")
        assert next(read) == {"n": 1}
        publish(conn, "acme", "order.paid", {})
        assert list(read) == [{"n": 2}, {"n": 3}]
        conn.rollback()


def test_a_subclass_and_a_proxy_are_accepted(sqlite_shop: SqliteShop) -> None:
    class Mine(sqlite3.Connection):
        pass

    with closing(sqlite3.connect(sqlite_shop.url, factory=Mine)) as conn:
        first = publish(conn, "acme", "order.paid", {})
        second = publish(LocalProxy(lambda: conn), "acme", "order.paid", {})
        conn.commit()
    assert sqlite_shop.event_ids() == [first, second]


def test_an_outbox_of_an_older_release_gives_its_own_hint(sqlite_shop: SqliteShop) -> None:
    with closing(sqlite3.connect(sqlite_shop.url)) as conn:
        conn.execute("ALTER TABLE hookline_outbox DROP COLUMN trace")
        with pytest.raises(sqlite3.OperationalError) as failed:
            publish(conn, "acme", "order.paid", {})
    assert "hookline outbox sql" in failed.value.__notes__[0]


def test_other_database_errors_get_no_hint(sqlite_shop: SqliteShop) -> None:
    conn = sqlite3.connect(sqlite_shop.url)
    conn.execute("BEGIN")
    conn.execute("PRAGMA query_only = on")
    with pytest.raises(sqlite3.OperationalError, match="readonly") as failed:
        publish(conn, "acme", "order.paid", {})
    conn.close()
    assert not hasattr(failed.value, "__notes__")


def test_other_objects_are_refused_as_connections(sqlite_shop: SqliteShop) -> None:
    with closing(sqlite3.connect(sqlite_shop.url)) as conn:
        for wrong in (conn.cursor(), None, sqlite_shop.url, object(), sqlite3):
            with pytest.raises(UnknownConnection):
                publish(wrong, "acme", "order.paid", {})
        with pytest.raises(TypeError, match="event"):
            publish_many(conn, [{"app": "acme"}])  # type: ignore[list-item]
        with pytest.raises(TypeError):
            publish_many(conn, event("acme", "order.paid", {}))  # type: ignore[arg-type]


# ── psycopg ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def psycopg_conn(postgres_shop: PostgresShop) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_shop.url) as conn:
        yield conn
        conn.rollback()


@pytest.fixture
async def psycopg_async(postgres_shop: PostgresShop) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(postgres_shop.url) as conn:
        yield conn
        await conn.rollback()


@pytest.mark.parametrize("factory", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor])
@pytest.mark.parametrize("rows", [dict_row, scalar_row, class_row(dict)])
def test_every_cursor_and_row_factory_of_psycopg(
    psycopg_conn: psycopg.Connection[Any], postgres_shop: PostgresShop, factory: Any, rows: Any
) -> None:
    psycopg_conn.cursor_factory, psycopg_conn.row_factory = factory, rows
    made = publish(psycopg_conn, "acme", "order.paid", {"share": "100%"})
    assert (psycopg_conn.cursor_factory, psycopg_conn.row_factory) == (factory, rows)
    psycopg_conn.commit()
    assert postgres_shop.event_ids() == [made]


async def test_the_raw_cursor_of_async_psycopg(
    psycopg_async: psycopg.AsyncConnection[Any], postgres_shop: PostgresShop
) -> None:
    psycopg_async.cursor_factory = psycopg.AsyncRawCursor
    made = await publish_async(psycopg_async, "acme", "order.paid", {})
    await psycopg_async.commit()
    assert postgres_shop.event_ids() == [made]


def test_a_transaction_block_of_an_autocommit_connection_is_accepted(
    psycopg_conn: psycopg.Connection[Any], postgres_shop: PostgresShop
) -> None:
    psycopg_conn.autocommit = True
    with psycopg_conn.transaction(force_rollback=True):
        publish(psycopg_conn, "acme", "order.paid", {})
    with psycopg_conn.transaction():
        made = publish(psycopg_conn, "acme", "order.paid", {})
        assert postgres_shop.outbox() == []
    assert postgres_shop.event_ids() == [made]


@pytest.mark.parametrize("statements", [0, 1])
def test_a_pipeline_of_psycopg(
    psycopg_conn: psycopg.Connection[Any], postgres_shop: PostgresShop, statements: int
) -> None:
    psycopg_conn.autocommit = True
    with psycopg_conn.pipeline():
        for _ in range(statements):
            psycopg_conn.execute("SELECT 1")
        with pytest.raises(NotInTransaction):
            publish(psycopg_conn, "acme", "order.paid", {})
    with psycopg_conn.pipeline(), psycopg_conn.transaction():
        for _ in range(statements):
            psycopg_conn.execute("SELECT 1")
        made = publish(psycopg_conn, "acme", "order.paid", {})
    assert postgres_shop.event_ids() == [made]


async def test_a_pipeline_of_async_psycopg(
    psycopg_async: psycopg.AsyncConnection[Any], postgres_shop: PostgresShop
) -> None:
    await psycopg_async.set_autocommit(True)
    async with psycopg_async.pipeline():
        await psycopg_async.execute("SELECT 1")
        with pytest.raises(NotInTransaction):
            await publish_async(psycopg_async, "acme", "order.paid", {})
    async with psycopg_async.pipeline(), psycopg_async.transaction():
        await psycopg_async.execute("SELECT 1")
        made = await publish_async(psycopg_async, "acme", "order.paid", {})
    assert postgres_shop.event_ids() == [made]


def test_a_failed_transaction_gives_the_drivers_own_error(psycopg_conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        psycopg_conn.execute("SELECT 1 / 0")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        publish(psycopg_conn, "acme", "order.paid", {})


def test_a_role_without_permission_gets_a_hint(
    psycopg_conn: psycopg.Connection[Any], postgres_shop: PostgresShop
) -> None:
    psycopg_conn.execute("CREATE ROLE nobody_yet")
    psycopg_conn.execute("GRANT USAGE ON SCHEMA hookline TO nobody_yet")
    psycopg_conn.execute("SET LOCAL ROLE nobody_yet")
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as failed:
        publish(psycopg_conn, "acme", "order.paid", {})
    assert "--grant" in failed.value.__notes__[0]


def test_a_cursor_of_psycopg_is_refused(psycopg_conn: psycopg.Connection[Any]) -> None:
    with psycopg_conn.cursor() as cursor, pytest.raises(UnknownConnection, match="connection itself"):
        publish(cursor, "acme", "order.paid", {})


# ── psycopg2 ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "factory", [psycopg2.extras.DictConnection, psycopg2.extras.RealDictConnection, psycopg2.extras.LoggingConnection]
)
def test_every_connection_factory_of_psycopg2(postgres_shop: PostgresShop, factory: Any) -> None:
    with closing(psycopg2.connect(postgres_shop.url, connection_factory=factory)) as conn:
        if factory is psycopg2.extras.LoggingConnection:
            conn.initialize(logging.getLogger("shop"))
        made = publish(conn, "acme", "order.paid", {"share": "100%"})
        conn.commit()
    assert postgres_shop.event_ids() == [made]


def test_psycopg2_in_autocommit_with_a_transaction_begun_by_hand(postgres_shop: PostgresShop) -> None:
    with closing(psycopg2.connect(postgres_shop.url)) as conn, conn.cursor() as cursor:
        conn.autocommit = True
        cursor.execute("BEGIN")
        made = publish(conn, "acme", "order.paid", {})
        assert postgres_shop.outbox() == []
        cursor.execute("COMMIT")
    assert postgres_shop.event_ids() == [made]


def test_any_client_encoding_of_the_connection_works(postgres_shop: PostgresShop) -> None:
    with closing(psycopg2.connect(postgres_shop.url)) as conn:
        conn.set_client_encoding("LATIN1")
        publish(conn, "acme", "order.paid", {"city": "Łódź 東京 😀"}, tags=["漢"], ordering_key="Ł")
        conn.commit()
    [row] = postgres_shop.outbox()
    assert (row["payload"].decode(), row["tags"], row["ordering_key"]) == ('{"city":"Łódź 東京 😀"}', ["漢"], "Ł")


def test_asynchronous_psycopg2_has_no_transactions(postgres_shop: PostgresShop) -> None:
    with closing(psycopg2.connect(postgres_shop.url, async_=True)) as conn:
        psycopg2.extras.wait_select(conn)
        with pytest.raises(UnknownConnection, match="asynchronous"):
            publish(conn, "acme", "order.paid", {})
    with pytest.raises(UnknownConnection, match="connection itself"):
        publish(psycopg2.extras.Range(), "acme", "order.paid", {})


# ── asyncpg ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def asyncpg_conn(postgres_shop: PostgresShop) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(postgres_shop.url)
    yield conn
    await conn.close()


@pytest.mark.parametrize("type_name", ["json", "jsonb", "text"])
async def test_type_codecs_of_the_application_do_not_matter(
    asyncpg_conn: Any, postgres_shop: PostgresShop, type_name: str
) -> None:
    if type_name != "text":
        await asyncpg_conn.set_type_codec(type_name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    async with asyncpg_conn.transaction():
        made = await publish_async(asyncpg_conn, "acme", "order.paid", {"n": 1}, channels=["eu"])
    [row] = postgres_shop.outbox()
    assert (row["event_id"], row["payload"], row["channels"]) == (made, b'{"n":1}', ["eu"])


async def test_asyncpg_without_a_statement_cache_and_begun_by_hand(postgres_shop: PostgresShop) -> None:
    conn = await asyncpg.connect(postgres_shop.url, statement_cache_size=0)
    await conn.execute("BEGIN")
    made = await publish_async(conn, "acme", "order.paid", {})
    assert postgres_shop.outbox() == []
    await conn.execute("COMMIT")
    await conn.close()
    assert postgres_shop.event_ids() == [made]


async def test_a_pool_is_refused_as_a_connection(postgres_shop: PostgresShop) -> None:
    async with asyncpg.create_pool(postgres_shop.url, min_size=1, max_size=1) as pool:
        for wrong in (pool, pool.acquire()):
            with pytest.raises(UnknownConnection, match="connection itself, not its cursor, pool"):
                await publish_async(wrong, "acme", "order.paid", {})
    assert postgres_shop.outbox() == []


# ── comparison with the SQL function ──────────────────────────────────────────────────────────────────────────────

_CALL = (
    "SELECT hookline.publish(%(app)s, %(event_type)s, %(payload)s::text, event_id => %(event_id)s, channels => %(channels)s, "
    "tags => %(tags)s, ordering_key => %(ordering_key)s, deliver_at => %(deliver_at)s, max_age => %(max_age)s, "
    "organization => %(organization)s, trace => %(trace)s)"
)


def test_the_row_is_the_one_that_the_sql_function_writes(
    psycopg_conn: psycopg.Connection[Any], postgres_shop: PostgresShop
) -> None:
    fields: dict[str, Any] = {
        "event_id": "order-7",
        "channels": ["eu", "b2b"],
        "tags": ["a,b", 'q"{}', "é"],
        "ordering_key": "café/7",
        "deliver_at": clock.wall() + timedelta(days=2),
        "max_age": timedelta(minutes=90),
        "organization": "org_shop",
        "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 vendor=x",
    }
    payload = {"city": "Łódź", "nul": "\x00", "n": [1, 2.5, None]}
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    for chosen in ([], ["channels"], ["max_age"], list(fields)):
        given = {name: fields[name] for name in ["event_id", *chosen]}
        publish(psycopg_conn, "acme", "order.paid", payload, **given)
        named = dict.fromkeys(fields) | given | {"app": "acme", "event_type": "order.paid", "payload": text}
        psycopg_conn.execute(_CALL, named)
    psycopg_conn.commit()
    rows = [{name: row[name] for name in row if name != "id"} for row in postgres_shop.outbox()]
    assert rows[0::2] == rows[1::2]
    assert len(rows) == 8
