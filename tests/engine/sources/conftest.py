"""An application's own PostgreSQL database beside Hookline's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hookline.engine.sources.setup import install
from tests.support.postgres import Databases
from tests.support.shop_database import ShopDatabase


@pytest.fixture(scope="session")
def shop_url(postgres_databases: Databases) -> str:
    """A PostgreSQL database with only an outbox. All tests share it one after the other, and `shop` clears it."""
    url = postgres_databases.server.url(postgres_databases.create())
    postgres_databases.run(lambda: install(url))
    return url


@pytest.fixture
async def shop(shop_url: str) -> AsyncIterator[ShopDatabase]:
    async with ShopDatabase.open(shop_url) as opened:
        yield opened
        await opened.clear()
