"""Hookline refuses to migrate a database whose encoding is not UTF-8."""

from __future__ import annotations

import asyncpg
import pytest

from hookline.errors import ConfigError
from hookline.security.vault import Vault
from hookline.store import StoreOptions, open_store
from tests.support import factory
from tests.support.postgres import PostgresServer


async def test_a_database_that_is_not_utf8_is_not_migrated(postgres: PostgresServer, vault: Vault) -> None:
    name = f"ascii_{factory.number()}"
    admin = await asyncpg.connect(postgres.url("postgres"))
    await admin.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0")
    store = await open_store(postgres.url(name), vault=vault, options=StoreOptions(pool_size=3))
    try:
        with pytest.raises(ConfigError, match="encoding is SQL_ASCII, and Hookline needs UTF8"):
            await store.migrate()
        assert await store.version() == 0
    finally:
        await store.close()
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()
