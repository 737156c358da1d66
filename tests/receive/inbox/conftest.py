"""Fixtures: an application's database with an inbox and a table of payments, and one connection of each kind to it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.outbox.desks import POSTGRES, SQLITE, Desk
from tests.receive.inbox.shop import Shop
from tests.support.postgres import Databases

KINDS = [
    *(pytest.param((kind, "postgres"), id=f"{kind.__name__}-postgres") for kind in POSTGRES),
    *(pytest.param((kind, "sqlite"), id=f"{kind.__name__}-sqlite") for kind in SQLITE),
]


@pytest.fixture(scope="session")
def _postgres_url(postgres_databases: Databases) -> Iterator[str]:
    name = postgres_databases.create()
    yield postgres_databases.server.url(name)
    postgres_databases.drop(name)


@pytest.fixture
def shop_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Shop]:
    def made(engine: str) -> Shop:
        if engine == "postgres":
            shop = Shop(request.getfixturevalue("_postgres_url"))
        else:
            shop = Shop(str(tmp_path / "shop.db"))
            with closing(sqlite3.connect(shop.url)) as conn:
                conn.execute("PRAGMA journal_mode = WAL")
        shop.set_up()
        return shop

    return made


@pytest.fixture
def any_shop(engine: str, shop_of: Callable[[str], Shop]) -> Shop:
    """Yield the database on both engines."""
    return shop_of(engine)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[type[Desk], str]:
    found: tuple[type[Desk], str] = request.param
    return found


@pytest.fixture
def shop(kind: tuple[type[Desk], str], shop_of: Callable[[str], Shop]) -> Shop:
    """Yield the database for every kind of connection."""
    return shop_of(kind[1])


@pytest.fixture
async def desk(kind: tuple[type[Desk], str], shop: Shop) -> AsyncIterator[Desk]:
    made = kind[0](shop.url)
    await made.open()
    yield made
    await made.close()
