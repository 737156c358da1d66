"""The adapter for connections of asyncpg, also those of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from hookline.outbox.adapters.base import Adapter, Rows, Statement, Values, script
from hookline.outbox.coroutines import as_async
from hookline.outbox.errors import NotInTransaction


def asynchronous(conn: Any) -> Asyncpg | None:
    return Asyncpg(conn) if isinstance(conn, asyncpg.Connection | PoolConnectionProxy) else None


class Asyncpg(Adapter):
    async def check(self) -> None:
        if not self._conn.is_in_transaction():
            advice = "call this function inside `async with conn.transaction():`"
            raise NotInTransaction(f"asyncpg commits each statement by itself outside a transaction: {advice}")

    async def fetch(self, statement: Statement, values: Values) -> Rows:
        rows = await self._conn.fetch(statement.numbered, *statement.for_numbered(values))
        return [tuple(row) for row in rows]

    async def run(self, statements: Sequence[str]) -> None:
        await self._conn.execute(script(statements))

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return as_async(self._conn.transaction())
