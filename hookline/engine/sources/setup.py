"""Creates the outbox in an application's own database, and deletes relayed rows from it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hookline.config import shown_url
from hookline.config.urls import sqlite_path
from hookline.engine.sources import open_source
from hookline.errors import Conflict, InvalidInput, SourceUnavailable
from hookline.model.outbox import OutboxPlace
from hookline.outbox import setup
from hookline.outbox.adapters.prune import delete_relayed, runner
from hookline.store import Store

_LOCK_TIMEOUT = 10.0  # seconds to wait for locks that the application's transactions hold

# Returns the GRANT that the role still needs to create the schema, or no row.
_MISSING_GRANT = """
SELECT format('GRANT CREATE ON DATABASE %I TO %I', current_database(), current_user)
WHERE to_regnamespace('hookline') IS NULL AND NOT has_database_privilege(current_database(), 'CREATE')
"""
_HOOKLINES = "SELECT 1 FROM sqlite_master WHERE name = 'outbox_place'"
GRANTS = """
-- The rights that a role needs to publish, and no others.
GRANT USAGE ON SCHEMA hookline TO {role};
GRANT EXECUTE ON FUNCTION
    hookline.publish(text, text, text, text, text[], text[], text, timestamptz, interval, text, text),
    hookline.publish(text, text, json, text, text[], text[], text, timestamptz, interval, text, text),
    hookline.publish(text, text, jsonb, text, text[], text[], text, timestamptz, interval, text, text),
    hookline.publish_events(json) TO {role};
"""


async def install(url: str) -> bool:
    """Create the outbox if it is missing. On PostgreSQL, also update an outdated one. Return whether anything changed.

    If the outbox is up to date, only read, so that the application can write meanwhile.
    """
    path = sqlite_path(url)
    if path is None:
        return await _install_postgres(url)
    return await asyncio.to_thread(_install_sqlite, path, shown_url(url))


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────────────────────────────


async def _install_postgres(url: str) -> bool:
    from asyncpg import LockNotAvailableError

    from hookline.engine.sources import postgres
    from hookline.store.postgres.connection import close

    name = shown_url(url)
    connection = await postgres.connect(url)
    try:
        if await postgres.version(connection, name) >= setup.VERSION:
            return False
        with postgres.reaching(name):
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}s'")
                await connection.execute(setup.LOCK)
                await _check_may_create(connection, name)
                await connection.execute(setup.sql("postgres"))
    except LockNotAvailableError:
        raise SourceUnavailable(f"{name}: another transaction has locked the outbox's table; try again later") from None
    finally:
        await close(connection)
    return True


async def _check_may_create(connection: Any, name: str) -> None:
    grant = await connection.fetchval(_MISSING_GRANT)
    if grant is not None:
        raise SourceUnavailable(f"{name}: the role of the URL may not create the schema hookline there: {grant}")


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _install_sqlite(path: Path, name: str) -> bool:
    with _opened(path, name) as conn:
        if conn.execute(_HOOKLINES).fetchone():
            raise InvalidInput(f"{name} is a database of Hookline itself, which already has an outbox")
        if _has_table(conn, name):
            return False
        conn.execute("BEGIN IMMEDIATE")
        setup.create_table(conn)
        conn.execute("COMMIT")
    return True


def _has_table(conn: sqlite3.Connection, name: str) -> bool:
    existing = _columns(conn)
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(setup.sql("sqlite"))
        required = _columns(model)
    if existing and not required <= existing:
        missing = ", ".join(sorted(required - existing))
        raise Conflict(f"{name} has a table hookline_outbox without {missing}: it is not Hookline's")
    return bool(existing)


def _columns(conn: sqlite3.Connection) -> set[str]:
    return {column for _, column, *_ in conn.execute("PRAGMA table_info(hookline_outbox)")}


@contextmanager
def _opened(path: Path, name: str) -> Iterator[sqlite3.Connection]:
    """Open the file for reading and writing. Close it at the end, which rolls back an open transaction."""
    _check_there(path)
    conn: sqlite3.Connection | None = None
    try:
        uri = f"file:{quote(str(path.absolute()))}?mode=rw"
        conn = sqlite3.connect(uri, uri=True, timeout=_LOCK_TIMEOUT, isolation_level=None)
        yield conn
    except sqlite3.Error as error:
        raise SourceUnavailable(f"{name}: {error}") from error
    finally:
        if conn is not None:
            conn.close()


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise SourceUnavailable(f"no database at {path.absolute()}: the application must create it, not Hookline")


# ── relayed rows ──────────────────────────────────────────────────────────────────────────────────────────────────


async def prune(url: str, store: Store) -> int:
    """Delete relayed rows from an application's SQLite file, and return their number.

    The application's next publish does the same.
    """
    path = sqlite_path(url)
    if path is None:
        raise InvalidInput("prune is for SQLite: a row of PostgreSQL is deleted when it is relayed")
    _check_there(path)
    place = await store.pipeline.place(open_source(url, store).name)
    return 0 if place is None else await asyncio.to_thread(_prune, path, shown_url(url), place)


def _prune(path: Path, name: str, place: OutboxPlace) -> int:
    """Delete relayed rows in short transactions, because each of them blocks the application's writes."""
    with _opened(path, name) as conn:
        more = True
        while more:
            conn.execute("BEGIN IMMEDIATE")
            more = delete_relayed(runner(conn), place)
            conn.execute("COMMIT")
        return conn.total_changes
