"""The outbox is created and dropped on an application's own connection, without losing events."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from hookline.errors import Conflict, InvalidInput
from hookline.model.outbox import OutboxPlace
from hookline.outbox import UnknownConnection, marker, publish, setup
from hookline.outbox.setup import create_table, create_table_async, drop_table
from hookline.security.vault import Vault, new_key
from hookline.store import StoreOptions, open_store
from hookline.testing import Published, published, published_async
from tests.outbox.desks import Desk
from tests.support.postgres import Databases

EVENT = ("acme", "order.paid", {"order": 7})
# Django has connections in this process but no installed apps, so it warns about database access.
pytestmark = pytest.mark.filterwarnings("ignore:Accessing the database during app initialization")


@pytest.fixture(scope="module")
def one_database(postgres_databases: Databases) -> Iterator[str]:
    name = postgres_databases.create()
    yield postgres_databases.server.url(name)
    postgres_databases.drop(name)


@pytest.fixture
def empty(one_database: str) -> Iterator[str]:
    """Create an empty PostgreSQL database."""
    yield one_database
    with psycopg.connect(one_database) as conn:
        conn.execute("SET client_min_messages = warning")
        conn.execute("DROP SCHEMA IF EXISTS hookline CASCADE")


@pytest.fixture
async def bare(kind: tuple[type[Desk], str], tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    """Open a connection to a database that has no outbox yet."""
    made = kind[0](request.getfixturevalue("empty") if kind[1] == "postgres" else str(tmp_path / "bare.db"))
    await made.open()
    yield made
    await made.close()


async def _create(desk: Desk) -> None:
    await create_table_async(desk.conn) if desk.is_async else create_table(desk.conn)


async def _published(desk: Desk) -> list[Published]:
    return await published_async(desk.conn) if desk.is_async else published(desk.conn)


async def _migrated(url: str) -> None:
    store = await open_store(url, vault=Vault([new_key()]), options=StoreOptions(pool_size=2))
    await store.migrate()
    await store.close()


def _schema(conn: Any) -> list[str]:
    """List the tables and functions of Hookline's schema, and the schema itself."""
    rows = conn.execute(
        "SELECT 'table ' || relname FROM pg_class WHERE relnamespace = to_regnamespace('hookline') AND relkind IN ('r', 'p')"
        " UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = to_regnamespace('hookline')"
        " UNION ALL SELECT 'schema' FROM pg_namespace WHERE nspname = 'hookline'"
    ).fetchall()
    return sorted(row[0] for row in rows)


# ── the SQL ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_setup_needs_only_the_core_install() -> None:
    code = "import sys, hookline.outbox.setup as s; s.sql('postgres'); print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not set(loaded) & {"asyncpg", "psycopg", "sqlalchemy", "django", "cryptography", "typer", "starlette"}


def test_an_unsupported_engine_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not 'mysql'"):
        setup.sql("mysql")  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["postgres", "sqlite"])
def test_the_statements_together_are_the_whole_sql(engine: Any) -> None:
    parts = setup.statements(engine)
    joined = "".join("".join(parts).split())
    whole = "".join(setup.sql(engine).split())
    assert len(whole) - len(joined) == len(parts)  # Only the semicolons between the statements are missing.


async def test_each_statement_can_be_prepared_alone(empty: str) -> None:
    conn = await asyncpg.connect(empty)
    for statement in setup.statements("postgres"):
        await (await conn.prepare(statement)).fetch()
    assert await conn.fetchval("SELECT hookline.outbox_version()") == setup.VERSION
    await conn.close()


# ── on every kind of connection ───────────────────────────────────────────────────────────────────────────────────


async def test_the_outbox_is_created_in_the_transaction_of_any_connection(bare: Desk) -> None:
    await bare.begin()
    await _create(bare)
    await _create(bare)  # Setting up the outbox a second time changes nothing.
    await bare.publish(*EVENT)
    assert [one.payload for one in await _published(bare)] == [{"order": 7}]
    await bare.commit()
    assert [one.app for one in await _published(bare)] == ["acme"]


def test_setup_does_not_commit(empty: str, tmp_path: Path) -> None:
    with psycopg.connect(empty) as conn:
        create_table(conn)
        conn.rollback()
        assert _schema(conn) == []
    conn = sqlite3.connect(tmp_path / "shop.db")
    conn.execute("BEGIN")
    create_table(conn)
    conn.rollback()
    assert conn.execute("SELECT name FROM sqlite_master").fetchall() == []
    conn.close()


def test_dropping_a_missing_outbox_is_no_error(empty: str, tmp_path: Path) -> None:
    with psycopg.connect(empty) as conn:
        drop_table(conn)
    conn = sqlite3.connect(tmp_path / "shop.db")
    drop_table(conn)
    conn.close()


def test_the_other_kind_of_connection_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UnknownConnection, match="is not a connection or session"):
        create_table(object())
    with sqlite3.connect(tmp_path / "shop.db") as conn, pytest.raises(UnknownConnection, match="not async"):
        asyncio.run(create_table_async(conn))
    conn.close()


# ── with Hookline in the same PostgreSQL database ─────────────────────────────────────────────────────────────────


def test_an_outbox_created_before_hookline_is_kept(empty: str) -> None:
    with psycopg.connect(empty) as conn:
        create_table(conn)
        publish(conn, *EVENT)
    asyncio.run(_migrated(empty))
    with psycopg.connect(empty) as conn:
        create_table(conn)
        assert [one.event_type for one in published(conn)] == ["order.paid"]
        before = _schema(conn)
        conn.execute("DELETE FROM hookline.outbox")
        drop_table(conn)
        assert _schema(conn) == before


async def test_setup_by_another_role_after_hookline_changes_nothing(empty: str) -> None:
    await _migrated(empty)
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute("DROP ROLE IF EXISTS clerk")
        conn.execute("CREATE ROLE clerk")
        try:
            conn.execute("SET ROLE clerk")  # The role `clerk` may not use Hookline's schema.
            create_table(conn)
            drop_table(conn)
        finally:
            conn.execute("RESET ROLE")
            conn.execute("DROP ROLE clerk")
        assert "table outbox" in _schema(conn)


def test_an_older_outbox_is_upgraded(empty: str) -> None:
    with psycopg.connect(empty) as conn:
        create_table(conn)
        conn.execute("CREATE OR REPLACE FUNCTION hookline.outbox_version() RETURNS integer LANGUAGE sql AS 'SELECT 0'")
        conn.execute("DROP FUNCTION hookline.publish_events(json)")
        create_table(conn)
        publish(conn, *EVENT)


def test_dropping_the_outbox_leaves_nothing(empty: str) -> None:
    with psycopg.connect(empty) as conn:
        create_table(conn)
        drop_table(conn)
        assert _schema(conn) == []


def test_a_schema_with_another_function_is_kept(empty: str) -> None:
    with psycopg.connect(empty) as conn:
        create_table(conn)
        conn.execute("CREATE FUNCTION hookline.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'")
        drop_table(conn)
        assert _schema(conn) == ["function mine", "schema"]


@pytest.mark.parametrize("aside", [False, True])
def test_waiting_events_prevent_the_drop_on_postgres(empty: str, aside: bool) -> None:
    with psycopg.connect(empty) as conn:
        create_table(conn)
        publish(conn, *EVENT)
        if aside:
            conn.execute("UPDATE hookline.outbox SET error = 'no such application'")
        conn.commit()
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=r"still has 1 event"):
            drop_table(conn)
        conn.rollback()
        conn.execute("DELETE FROM hookline.outbox")
        drop_table(conn)


def test_waiting_events_prevent_the_drop_on_sqlite(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as conn:
        create_table(conn)
        publish(conn, *EVENT)
        with pytest.raises(Conflict, match=r"still has 1 event"):
            drop_table(conn)
        conn.execute("DELETE FROM hookline_outbox")
        drop_table(conn)
        assert conn.execute("SELECT count(*) FROM sqlite_master WHERE name = 'hookline_outbox'").fetchone() == (0,)
    conn.close()


@pytest.mark.parametrize(("place", "waiting"), [((2, "u2"), 1), ((2, "of another file"), 3), ((9, "u9"), 3)])
def test_relayed_events_do_not_prevent_the_drop(tmp_path: Path, place: tuple[int, str], waiting: int) -> None:
    file = tmp_path / "shop.db"
    conn = sqlite3.connect(file)
    create_table(conn)
    for number in (1, 2, 3):
        publish(conn, *EVENT)
        conn.execute("UPDATE hookline_outbox SET uid = ? WHERE id = ?", [f"u{number}", number])
    marker.write(file, OutboxPlace(row_id=place[0], row_uid=place[1]))
    with pytest.raises(Conflict, match=f"still has {waiting} event"):
        drop_table(conn)
    marker.write(file, OutboxPlace(row_id=3, row_uid="u3"))
    drop_table(conn)
    assert conn.execute("SELECT name FROM sqlite_master WHERE name = 'hookline_outbox'").fetchall() == []
    conn.close()


async def test_concurrent_setups_wait_for_each_other(empty: str) -> None:
    async def one() -> None:
        conn = await asyncpg.connect(empty)
        await create_table_async(conn)
        await conn.close()

    await asyncio.gather(*(one() for _ in range(6)))
    with psycopg.connect(empty) as conn:
        assert "function publish_events" in _schema(conn)
