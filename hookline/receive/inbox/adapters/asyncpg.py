"""asyncpg: Connection, and what a pool lends."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from hookline.outbox.errors import NotInTransaction
from hookline.receive.inbox.adapters.base import savepoint_async
from hookline.receive.inbox.statement import Engine, Rows, Statement, Values


def asynchronous(conn: Any) -> Asyncpg | None:
    return Asyncpg(conn) if isinstance(conn, asyncpg.Connection | PoolConnectionProxy) else None


class Asyncpg:
    engine: Engine = "postgres"

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    async def check(self) -> None:
        if not self._conn.is_in_transaction():
            raise NotInTransaction(
                "asyncpg commits each statement by itself outside a transaction: "
                "call it inside `async with conn.transaction():`"
            )

    async def fetch(self, statement: Statement, values: Values) -> Rows:
        rows = await self._conn.fetch(statement.numbered, *statement.each_once(values))
        return [tuple(row) for row in rows]

    def nested(self) -> AbstractAsyncContextManager[None]:
        return savepoint_async(self._conn.execute)

    def transaction(self) -> AbstractAsyncContextManager[object]:
        transaction: AbstractAsyncContextManager[object] = self._conn.transaction()
        return transaction
