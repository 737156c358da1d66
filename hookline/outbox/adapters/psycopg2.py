"""The adapter for psycopg2."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from psycopg2 import extensions

from hookline.outbox.adapters.base import Adapter, Rows, Statement, Values, script
from hookline.outbox.coroutines import as_async
from hookline.outbox.errors import NotInTransaction, UnknownConnection


def sync(conn: Any) -> Psycopg2 | None:
    if not isinstance(conn, extensions.connection):
        return None
    if conn.async_:
        raise UnknownConnection("an asynchronous connection of psycopg2 has no transactions")
    return Psycopg2(conn)


class Psycopg2(Adapter):
    async def check(self) -> None:
        if self._conn.autocommit and self._conn.get_transaction_status() == extensions.TRANSACTION_STATUS_IDLE:
            raise NotInTransaction("this psycopg2 connection is in autocommit mode: set conn.autocommit = False")

    async def fetch(self, statement: Statement, values: Values) -> Rows:
        with self._conn.cursor(cursor_factory=extensions.cursor) as cursor:
            cursor.execute(statement.percent, statement.for_percent(values))
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    async def run(self, statements: Sequence[str]) -> None:
        with self._conn.cursor() as cursor:
            cursor.execute(script(statements))

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return as_async(self._conn)

    def _opens_transaction(self) -> bool:
        return self._conn.status == extensions.STATUS_READY and not self._conn.autocommit
