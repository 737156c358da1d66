"""The key in the application's own transaction: either both the key and the effect are there, or neither is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from hookline import clock
from hookline.receive.inbox import adapters, plans
from hookline.receive.inbox.checks import checked_key, checked_scope


@contextmanager
def once(conn: Any, key: str, scope: str = "") -> Iterator[bool]:
    """Record `key` in the open transaction of `conn`; True if nobody has before. The block runs either way.

        with conn.transaction(), inbox.once(conn, webhook.id) as first:  # psycopg
            if first:
                conn.execute("UPDATE accounts SET ...")

    Commit after the block, as you always do; the same transaction, rolled back, takes the key back. If the block raises, key and
    effect are taken back at once (a savepoint), whatever you then make of the rest.

    key    the id that is the same on every copy of an event: 1 to 256 characters
    scope  whose key it is, where several senders or tenants share the table: the same key of another scope is another key

    A copy that comes while the first one's transaction is open waits for its end on PostgreSQL (and is the first if that one was
    rolled back); on SQLite every writer waits for the one before it. Raises `NotInTransaction` for a connection that commits
    each statement by itself.
    """
    name, owner = checked_key(key), checked_scope(scope)
    on = adapters.of(conn)
    on.check()
    with on.nested():
        yield plans.run(on, plans.record(on.engine, clock.wall(), owner, name))


@asynccontextmanager
async def once_async(conn: Any, key: str, scope: str = "") -> AsyncIterator[bool]:
    """`once` on a connection or session of asyncpg, psycopg's AsyncConnection, or SQLAlchemy's async ones."""
    name, owner = checked_key(key), checked_scope(scope)
    on = adapters.of_async(conn)
    await on.check()
    async with on.nested():
        yield await plans.run_async(on, plans.record(on.engine, clock.wall(), owner, name))
