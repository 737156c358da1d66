"""psycopg 3: Connection and AsyncConnection, of a pool or not."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from hookline.outbox.errors import NotInTransaction
from hookline.receive.inbox.adapters.base import savepoint, savepoint_async
from hookline.receive.inbox.statement import Engine, Rows, Statement, Values

_Conn = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


def sync(conn: Any) -> Psycopg | None:
    return Psycopg(conn) if isinstance(conn, psycopg.Connection) else None


def asynchronous(conn: Any) -> AsyncPsycopg | None:
    return AsyncPsycopg(conn) if isinstance(conn, psycopg.AsyncConnection) else None


class Psycopg:
    engine: Engine = "postgres"

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn

    def check(self) -> None:
        _check(self._conn)

    def fetch(self, statement: Statement, values: Values) -> Rows:
        with self._conn.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(*_prepared(cursor, statement, values))
            return cursor.fetchall() if cursor.description else []

    def nested(self) -> AbstractContextManager[None]:
        return savepoint(self._conn.execute)

    def transaction(self) -> AbstractContextManager[object]:
        return self._conn.transaction()


class AsyncPsycopg:
    engine: Engine = "postgres"

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self._conn = conn

    async def check(self) -> None:
        _check(self._conn)

    async def fetch(self, statement: Statement, values: Values) -> Rows:
        async with self._conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(*_prepared(cursor, statement, values))
            return await cursor.fetchall() if cursor.description else []

    def nested(self) -> AbstractAsyncContextManager[None]:
        return savepoint_async(self._conn.execute)

    def transaction(self) -> AbstractAsyncContextManager[object]:
        return self._conn.transaction()


def _check(conn: _Conn) -> None:
    """In a pipeline the state may be unknown: PostgreSQL itself refuses a savepoint outside a transaction."""
    if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        raise NotInTransaction(
            "this psycopg connection is in autocommit mode: call it inside `with conn.transaction():`"
        )


def _prepared(cursor: Any, statement: Statement, values: Values) -> tuple[Any, Any]:
    """A connection's `cursor_factory` may be the one that takes PostgreSQL's own placeholders."""
    if not statement.names:
        return statement.text, None
    if isinstance(cursor, psycopg.RawCursor | psycopg.AsyncRawCursor):
        return statement.numbered, statement.each_once(values)
    return statement.percent, statement.in_order(values)
