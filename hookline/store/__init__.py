"""Persistent storage. `protocols.Store` describes it; `sqlite/` and `postgres/` implement it."""

from __future__ import annotations

from hookline.errors import ConfigError
from hookline.security.vault import Vault
from hookline.store.protocols import Store, StoreOptions

__all__ = ["Store", "StoreOptions", "open_store"]


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
