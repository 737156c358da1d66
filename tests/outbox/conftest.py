"""Fixtures: an application's database with an outbox, and one connection of each kind to it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.outbox.desks import POSTGRES, SQLITE, Desk, new_file
from tests.support.postgres import Databases

Row = dict[str, Any]

KINDS = [
    *(pytest.param((kind, "postgres"), id=f"{kind.__name__}-postgres") for kind in POSTGRES),
    *(pytest.param((kind, "sqlite"), id=f"{kind.__name__}-sqlite") for kind in SQLITE),
]
_SQLITE_SQL = (resources.files("hookline.outbox") / "sql" / "sqlite.sql").read_text()


class Shop:
    """Reads the committed rows of the application's database over a separate connection."""

    engine: str

    def __init__(self, url: str) -> None:
        self.url = url

    def rows(self, query: str) -> list[Row]:
        raise NotImplementedError

    def outbox(self) -> list[Row]:
        raise NotImplementedError

    def event_ids(self) -> list[str]:
        return [row["event_id"] for row in self.outbox()]

    def orders(self) -> int:
        found: int = self.rows("SELECT count(*) AS n FROM orders")[0]["n"]
        return found


class PostgresShop(Shop):
    engine = "postgres"

    def rows(self, query: str) -> list[Row]:
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            return connection.execute(query).fetchall()

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def outbox(self) -> list[Row]:
        return self.rows("SELECT * FROM hookline.outbox ORDER BY id")


class SqliteShop(Shop):
    engine = "sqlite"

    def rows(self, query: str) -> list[Row]:
        with closing(sqlite3.connect(self.url)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]

    def outbox(self) -> list[Row]:
        """Return the rows of the outbox, with JSON columns decoded."""
        found = self.rows("SELECT * FROM hookline_outbox ORDER BY id")
        return [{name: _read(name, value) for name, value in row.items()} for row in found]


def _read(name: str, value: Any) -> Any:
    return json.loads(value) if name in ("channels", "tags") and value is not None else value


@pytest.fixture(scope="session")
def _postgres_shop(postgres_databases: Databases, postgres_template: str) -> Iterator[PostgresShop]:
    name = postgres_databases.create(postgres_template)
    shop = PostgresShop(postgres_databases.server.url(name))
    shop.run("CREATE TABLE orders (n integer)")
    yield shop
    postgres_databases.drop(name)


@pytest.fixture
def postgres_shop(_postgres_shop: PostgresShop) -> PostgresShop:
    """Yield the PostgreSQL database that all tests share. It is emptied for each test."""
    _postgres_shop.run("TRUNCATE hookline.outbox, orders")
    return _postgres_shop


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> SqliteShop:
    return SqliteShop(new_file(tmp_path / "shop.db", outbox_sql=_SQLITE_SQL))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[type[Desk], str]:
    found: tuple[type[Desk], str] = request.param
    return found


@pytest.fixture
def shop(kind: tuple[type[Desk], str], request: pytest.FixtureRequest) -> Shop:
    found: Shop = request.getfixturevalue(f"{kind[1]}_shop")
    return found


@pytest.fixture
async def desk(kind: tuple[type[Desk], str], shop: Shop) -> AsyncIterator[Desk]:
    made = kind[0](shop.url)
    await made.open()
    yield made
    await made.close()
