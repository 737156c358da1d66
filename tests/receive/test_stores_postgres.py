"""Stores of keys in PostgreSQL: outages, table names, and settings of the database and of pools."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row

from hookline.errors import InvalidInput
from hookline.receive.idempotency.keys import Fresh, InProgress, KeyStoreUnavailable, Mismatch, Replay, encode
from hookline.receive.stores.postgres import AsyncPostgresKeys, PostgresKeys, table_sql
from hookline.receive.stores.postgres_connections import MAX_CONNECTIONS
from hookline.receive.stores.redis import RedisKeys
from tests.receive.conftest import OpenStage
from tests.receive.stages import (
    DONE,
    KEY,
    PRINT,
    STAGES,
    Copy,
    Stage,
)

POSTGRES = [name for name, (_, engine) in STAGES.items() if engine == "postgres"]


@pytest.fixture(params=POSTGRES)
async def postgres_stage(request: pytest.FixtureRequest, open_stage: OpenStage) -> Stage:
    return await open_stage(request.param)


async def test_connections_that_the_server_ended_are_replaced(postgres_stage: Stage) -> None:
    """Several connections are idle, and each operation gets a broken one."""
    copies = postgres_stage.copies(5)
    await asyncio.gather(*(copy.begin() for copy in copies))
    held = postgres_stage.copy()
    verbs: list[Callable[[Copy], Awaitable[Any]]] = [
        lambda copy: copy.begin(),
        lambda copy: copy.renew(),
        lambda copy: copy.finish(DONE),
    ]
    for verb in verbs:
        await _end_sessions(postgres_stage.place)
        assert await verb(held)
    assert await postgres_stage.copy(held.key).begin() == Replay(DONE)


async def _end_sessions(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def test_an_unavailable_database_makes_the_store_unavailable(postgres_stage: Stage) -> None:
    """The database refuses new connections and ends the existing ones."""
    held = postgres_stage.copy()
    await held.begin()
    connections = _connections(postgres_stage)
    connections._timeout = 0.3
    place, _, name = postgres_stage.place.rpartition("/")
    async with await psycopg.AsyncConnection.connect(f"{place}/postgres", autocommit=True) as admin:
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        try:
            await admin.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            for verb in (held.begin, held.renew, lambda: held.finish(DONE), held.release):
                with pytest.raises(KeyStoreUnavailable, match="not available now"):
                    await verb()
        finally:
            await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    connections._timeout = 30.0  # A pool waits before it connects again.
    assert await held.renew()


def _connections(stage: Any) -> Any:
    return getattr(stage.keys, "_connections", None) or stage.store._keys._connections


async def test_a_function_that_connects_is_called_for_a_few_connections_only(keys_url: str) -> None:
    opened: list[Any] = []

    def connect() -> Any:
        opened.append(psycopg.connect(keys_url))
        return opened[-1]

    keys = PostgresKeys(connect)
    keys.create_table()
    with ThreadPoolExecutor(40) as threads:
        answers = list(
            threads.map(lambda n: keys.begin(b"%d" % (n % 50), PRINT, token=b"%d" % n, lease=30), range(400))
        )
    assert answers.count(Fresh(1)) == 50
    assert len(opened) <= MAX_CONNECTIONS
    keys.close()
    assert all(conn.closed for conn in opened)


async def test_a_function_that_cannot_connect_makes_the_store_unavailable(keys_url: str) -> None:
    """Any exception makes the store unavailable, because the function may ask another service for the password. Only
    `InvalidInput` is passed on, as an error of the caller."""
    faults: list[Exception] = [LookupError("no password today"), InvalidInput("wrong kind")]

    def connect() -> Any:
        if faults:
            raise faults.pop(0)
        return psycopg.connect(keys_url)

    keys = PostgresKeys(connect)
    with pytest.raises(KeyStoreUnavailable, match="cannot be opened now: LookupError: no password today"):
        keys.renew(KEY, b"1", 30)
    with pytest.raises(InvalidInput, match="wrong kind"):
        keys.renew(KEY, b"1", 30)
    keys.create_table()
    assert not keys.renew(KEY, b"1", 30)
    keys.close()


async def test_a_call_fails_when_all_connections_hang(keys_url: str) -> None:
    keys = PostgresKeys(lambda: psycopg.connect(keys_url), timeout=0.1)
    keys.create_table()
    with psycopg.connect(keys_url) as other, ThreadPoolExecutor(MAX_CONNECTIONS) as threads:
        other.execute("LOCK TABLE hookline_idempotency")
        waiting = [threads.submit(keys.renew, KEY, b"1", 30) for _ in range(MAX_CONNECTIONS)]
        while keys._keys._connections._own().free._value:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)  # Wait until every call has a connection.
        with pytest.raises(KeyStoreUnavailable, match="became free"):
            keys.renew(KEY, b"1", 30)
        other.rollback()
        assert [one.result() for one in waiting] == [False] * MAX_CONNECTIONS
    keys.close()


async def test_a_missing_table_gives_an_error_with_a_hint(keys_url: str) -> None:
    keys = PostgresKeys(lambda: psycopg.connect(keys_url))
    with pytest.raises(KeyStoreUnavailable, match=r"create_table\(\) makes it"):
        keys.begin(KEY, PRINT, token=b"1", lease=30)
    keys.close()


async def test_names_are_quoted(keys_url: str) -> None:
    table, schema = 'keys"; DROP TABLE orders; --%s %(a)s $1 {table}', "Ein \"Schema\" 'm\\it' %"
    with psycopg.connect(keys_url, autocommit=True) as conn:
        conn.execute('DROP SCHEMA IF EXISTS "Ein ""Schema"" \'m\\it\' %" CASCADE')
        conn.execute('CREATE SCHEMA "Ein ""Schema"" \'m\\it\' %"')
        conn.execute("CREATE TABLE IF NOT EXISTS orders (n integer)")
    keys = PostgresKeys(lambda: psycopg.connect(keys_url), table=table, schema=schema)
    keys.create_table()
    keys.create_table()
    assert keys.begin(KEY, PRINT, token=b"1", lease=30) == Fresh(1)
    assert keys.finish(KEY, b"1", DONE, 60)
    async with asyncpg.create_pool(keys_url, min_size=1, max_size=1) as pool:
        same = AsyncPostgresKeys(pool, table=table, schema=schema)
        await same.create_table()
        assert await same.begin(KEY, PRINT, token=b"2", lease=30) == Replay(DONE)
        assert await same.clean(10) == 0
    with psycopg.connect(keys_url) as conn:
        found = conn.execute("SELECT schemaname FROM pg_tables WHERE tablename = %s", (table,)).fetchall()
        assert found == [(schema,)]
        conn.execute("DROP TABLE orders")  # The application's own table still exists.
    keys.close()


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 49, "ü" * 25])
def test_names_that_postgres_would_cut_or_refuse_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        table_sql(name)
    with pytest.raises(InvalidInput):
        PostgresKeys(psycopg.connect, schema=name)


async def test_several_stores_create_the_table_at_once(keys_url: str) -> None:
    stores = [PostgresKeys(lambda: psycopg.connect(keys_url)) for _ in range(8)]
    await asyncio.gather(*(asyncio.to_thread(store.create_table) for store in stores))
    with psycopg.connect(keys_url, autocommit=True) as conn:
        conn.execute(table_sql())  # A migration may run the SQL a second time.
    assert stores[0].begin(KEY, PRINT, token=b"1", lease=30) == Fresh(1)
    for store in stores:
        store.close()


async def test_a_second_create_table_waits_for_the_first(keys_url: str) -> None:
    keys = PostgresKeys(lambda: psycopg.connect(keys_url))
    with psycopg.connect(keys_url) as first, ThreadPoolExecutor(1) as thread:
        first.execute(keys._keys._sql.create)  # The transaction is not committed yet.
        making = thread.submit(keys.create_table)
        await _until_somebody_waits(keys_url)
        first.commit()
        making.result(60)
    keys.close()


@pytest.mark.parametrize(
    ("fingerprint", "response", "lease", "expires", "expected"),
    [
        (b"o" * 32, None, 30, 60, Mismatch()),
        (b"o" * 32, None, -1, 60, Mismatch()),
        (PRINT, None, 30, 60, InProgress),
        (PRINT, None, -1, 60, Fresh(4)),
        (PRINT, encode(DONE), -1, 60, Replay(DONE)),
        (b"o" * 32, encode(DONE), -1, 60, Mismatch()),
        (b"o" * 32, encode(DONE), -2, -1, Fresh(1)),
        (PRINT, None, 30, -1, Fresh(1)),
    ],
)
async def test_a_key_that_another_session_claimed_during_the_call_is_seen(
    keys_url: str, fingerprint: bytes, response: bytes | None, lease: float, expires: float, expected: Any
) -> None:
    """The snapshot of our statement does not include the row. The INSERT waits for the transaction that creates the
    row."""
    keys = PostgresKeys(lambda: psycopg.connect(keys_url))
    keys.create_table()
    with psycopg.connect(keys_url) as first, ThreadPoolExecutor(1) as thread:
        first.execute(
            "INSERT INTO hookline_idempotency VALUES (%s, %s, 'another', 3, now() + make_interval(secs => %s), "
            "now() + make_interval(secs => %s), %s)",
            (KEY, fingerprint, lease, expires, response),
        )
        beginning = thread.submit(keys.begin, KEY, PRINT, token=b"ours", lease=30)
        await _until_somebody_waits(keys_url)
        first.commit()
        answer = beginning.result(60)
    assert answer == expected or type(answer) is expected
    keys.close()


async def _until_somebody_waits(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        while not (await (await conn.execute(waiting)).fetchone()):
            await asyncio.sleep(0.01)  # The database sends no notification, so the test polls.


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_another_default_isolation_level_changes_nothing(
    keys_url: str, open_stage: OpenStage, isolation: str
) -> None:
    name = keys_url.rpartition("/")[2]
    with psycopg.connect(keys_url, autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
        try:
            stage = await open_stage("postgres-pool")
            for _ in range(5):
                copies = stage.copies(25)
                answers = await asyncio.gather(*(copy.begin() for copy in copies))
                assert sorted(type(answer).__name__ for answer in answers) == ["Fresh"] + ["InProgress"] * 24
        finally:
            conn.execute(f"ALTER DATABASE {name} RESET default_transaction_isolation")


async def test_connections_are_returned_to_the_pool_unchanged(keys_url: str) -> None:
    """The store works with any row factory, cursor and transaction mode of the pool, and restores them."""
    from psycopg_pool import ConnectionPool

    settings = {"row_factory": dict_row, "cursor_factory": psycopg.ClientCursor}
    with ConnectionPool(keys_url, min_size=1, max_size=1, kwargs=settings) as pool:
        keys = PostgresKeys(pool)
        keys.create_table()
        assert keys.begin(KEY, PRINT, token=b"1", lease=30) == Fresh(1)
        with pool.connection() as conn:
            assert not conn.autocommit
            assert conn.execute("SELECT 1 AS one").fetchone() == {"one": 1}
            conn.rollback()
        assert isinstance(keys.begin(KEY, PRINT, token=b"2", lease=30), InProgress)


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: PostgresKeys("postgresql://"), "function that opens"),
        (lambda: PostgresKeys(asyncpg.create_pool("postgresql://")), "AsyncPostgresKeys"),
        (lambda: AsyncPostgresKeys("postgresql://"), "give a pool"),
        (lambda: AsyncPostgresKeys(None), "give a pool"),
        (lambda: PostgresKeys(lambda: sqlite3.connect(":memory:")).clean(1), "psycopg 3"),
        (lambda: RedisKeys("redis://"), "redis-py"),
    ],
)
async def test_a_store_refuses_other_objects_than_pools_and_functions(make: Callable[[], Any], hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint):
        make()
