"""Direct access to the database of a store, to read raw rows and to write rows that are wrong on purpose.

Tests write the same SQL for both engines: `$1` for parameters, tables without their schema, instants as aware
datetimes.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg

from hookline import clock
from hookline.clock import from_micros, to_micros

_INSTANT = re.compile(r"(^at|_at|_until|_since|^since|_after|floor|^tat)$")

Row = dict[str, Any]


def is_instant(column: str) -> bool:
    return _INSTANT.search(column) is not None


class Raw:
    """A connection beside those of the store. Every call commits at once."""

    engine: str

    async def rows(self, statement: str, *values: object) -> list[Row]:
        raise NotImplementedError

    async def many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def execute(self, statement: str, *values: object) -> None:
        await self.rows(statement, *values)

    async def row(self, statement: str, *values: object) -> Row:
        found = await self.rows(statement, *values)
        assert len(found) == 1, f"{len(found)} rows"
        return found[0]

    async def value(self, statement: str, *values: object) -> Any:
        return next(iter((await self.row(statement, *values)).values()))

    async def count(self, table: str, where: str = "1 = 1", *values: object) -> int:
        found: int = await self.value(f"SELECT count(*) AS n FROM {table} WHERE {where}", *values)
        return found

    async def instants(self) -> dict[str, list[str]]:
        """Return the columns of every table that hold an instant."""
        raise NotImplementedError

    async def blobs(self) -> list[tuple[str, str]]:
        """Return table and name of every column of bytes."""
        raise NotImplementedError

    async def now(self) -> datetime:
        raise NotImplementedError


class RawSqlite(Raw):
    engine = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row

    async def rows(self, statement: str, *values: object) -> list[Row]:
        return await asyncio.to_thread(self._rows, statement, values)

    def _rows(self, statement: str, values: Sequence[object]) -> list[Row]:
        cursor = self._connection.execute(_numbered(statement), [_to_sqlite(value) for value in values])
        return [{name: _from_sqlite(name, row[name]) for name in row.keys()} for row in cursor.fetchall()]  # noqa: SIM118

    async def many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        await asyncio.to_thread(self._many, statement, rows)

    def _many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_numbered(statement), [[_to_sqlite(value) for value in row] for row in rows])
        self._connection.execute("COMMIT")

    async def close(self) -> None:
        self._connection.close()

    async def now(self) -> datetime:
        return clock.wall()  # SQLite has no server clock: this machine's clock is the engine's clock

    async def instants(self) -> dict[str, list[str]]:
        found = await self.rows(
            "SELECT m.name AS source, c.name AS field FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'"
        )
        return _by_table(found)

    async def blobs(self) -> list[tuple[str, str]]:
        found = await self.rows(
            "SELECT m.name AS source, c.name AS field FROM sqlite_schema m, pragma_table_info(m.name) c"
            " WHERE m.type = 'table' AND lower(c.type) = 'blob'"
        )
        return [(row["source"], row["field"]) for row in found]


class RawPostgres(Raw):
    engine = "postgres"

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection

    @classmethod
    async def connect(cls, url: str) -> RawPostgres:
        settings = {"search_path": "hookline, public"}
        return cls(await asyncpg.connect(url, server_settings=settings, statement_cache_size=0))

    async def rows(self, statement: str, *values: object) -> list[Row]:
        return [dict(row) for row in await self.connection.fetch(statement, *values)]

    async def many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        await self.connection.executemany(statement, rows)

    async def close(self) -> None:
        await self.connection.close(timeout=60)

    async def now(self) -> datetime:
        found: datetime = await self.value("SELECT clock_timestamp() AS at")
        return found

    async def instants(self) -> dict[str, list[str]]:
        found = await self.rows(
            "SELECT c.relname AS source, a.attname AS field FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
            " WHERE c.relnamespace = 'hookline'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
            " AND a.atttypid = 'timestamptz'::regtype AND NOT a.attisdropped"
        )
        return _by_table(found)

    async def blobs(self) -> list[tuple[str, str]]:
        found = await self.rows(
            "SELECT c.relname AS source, a.attname AS field FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
            " WHERE c.relnamespace = 'hookline'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
            " AND a.atttypid = 'bytea'::regtype AND NOT a.attisdropped"
        )
        return [(row["source"], row["field"]) for row in found]


async def open_raw(url: str) -> Raw:
    if url.startswith("sqlite:"):
        return RawSqlite(Path(url.removeprefix("sqlite:///")))
    return await RawPostgres.connect(url)


def _by_table(found: list[Row]) -> dict[str, list[str]]:
    tables: dict[str, list[str]] = {}
    for row in found:
        if is_instant(row["field"]):
            tables.setdefault(row["source"], []).append(row["field"])
    return tables


def _numbered(statement: str) -> str:
    return re.sub(r"\$(\d+)", r"?\1", statement)


def _to_sqlite(value: object) -> Any:
    return to_micros(value) if isinstance(value, datetime) else value


def _from_sqlite(column: str, value: object) -> Any:
    return from_micros(value) if is_instant(column) and isinstance(value, int) else value
