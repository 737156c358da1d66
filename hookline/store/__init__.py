"""Persistent storage. `store.py` describes it. `sqlite/` and `postgres/` implement it, and the same tests run on
both."""

from __future__ import annotations

from hookline.errors import ConfigError
from hookline.security.vault import Vault
from hookline.store.bounds import (
    COUNTED,
    COUNTING,
    MAX_ATTEMPTS,
    MAX_DIGITS,
    MAX_LISTED,
    MAX_WAITING,
    SCHEMA_VERSION,
    STEP,
)
from hookline.store.options import StoreOptions
from hookline.store.pages import Page, Walk, after_death, after_number, death
from hookline.store.store import PARTS, Store


async def open_store(url: str, *, vault: Vault, options: StoreOptions) -> Store:
    """Open the database that `url` names: `sqlite:///file.db` or `postgresql://…`. This does not migrate it."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from hookline.store.sqlite import SqliteStore

        return await SqliteStore.open(url, vault=vault, options=options)
    if scheme in ("postgresql", "postgres"):
        from hookline.store.postgres import PostgresStore

        return await PostgresStore.open(url, vault=vault, options=options)
    raise ConfigError("the database URL must begin with sqlite:// or postgresql://")
