"""Record a key in the application's own transaction: the key and the effect are committed together, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

from hookline.outbox import adapters
from hookline.outbox.adapters.base import Adapter
from hookline.outbox.coroutines import as_sync
from hookline.receive.inbox import queries
from hookline.receive.inbox.checks import checked_key, checked_scope


def once(conn: Any, key: str, scope: str = "") -> AbstractContextManager[bool]:
    """Record `key` in the open transaction of `conn`. The value is True if nobody recorded it before. The block always runs.

        with conn.transaction(), inbox.once(conn, webhook.id) as first:  # psycopg
            if first:
                conn.execute("UPDATE accounts SET ...")

    Commit after the block, as you always do. A rollback of the transaction also removes the key. If the block raises, the key
    and the effect are undone at once, by a savepoint, whether or not you commit the transaction.

    key    the id that all copies of an event share: 1 to 256 characters
    scope  the owner of the key, if several senders or tenants share the table. The same key in another scope is another key

    On PostgreSQL, a copy that arrives while the transaction of the first request is open waits for its end. If that
    transaction is rolled back, the copy is the first. On SQLite every writer waits for the one before it. Raises
    `NotInTransaction` for a connection that commits each statement by itself.
    """
    return as_sync(_once(adapters.of(conn), key, scope))


def once_async(conn: Any, key: str, scope: str = "") -> AbstractAsyncContextManager[bool]:
    """Do the same as `once` on an async connection or session of asyncpg, psycopg or SQLAlchemy."""
    return _once(adapters.of_async(conn), key, scope)


@asynccontextmanager
async def _once(on: Adapter, key: str, scope: str) -> AsyncIterator[bool]:
    name, owner = checked_key(key), checked_scope(scope)
    await on.check()
    async with on.nested():
        yield await queries.record(on, owner, name)
