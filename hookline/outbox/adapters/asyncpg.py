"""asyncpg: Connection, and what a pool lends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from hookline.outbox.adapters import statements
from hookline.outbox.adapters.trouble import explained
from hookline.outbox.errors import NotInTransaction, UnknownConnection
from hookline.outbox.event import Event

_SELECT = statements.POSTGRES.format("$1")


async def write_async(conn: Any, events: Sequence[Event]) -> None:
    if not isinstance(conn, asyncpg.Connection | PoolConnectionProxy):
        raise UnknownConnection(f"{type(conn).__name__} of asyncpg: give a connection, such as pool.acquire() lends")
    if not conn.is_in_transaction():
        raise NotInTransaction(
            "asyncpg commits each statement by itself outside a transaction: "
            "call publish_async inside `async with conn.transaction():`"
        )
    with explained:
        await conn.execute(_SELECT, statements.as_document(events))
