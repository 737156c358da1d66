"""psycopg2."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from psycopg2 import extensions

from hookline.outbox.errors import NotInTransaction
from hookline.receive.inbox.adapters.base import savepoint
from hookline.receive.inbox.statement import Engine, Rows, Statement, Values


def sync(conn: Any) -> Psycopg2 | None:
    """Not one that is asynchronous: it has no transactions of its own."""
    return Psycopg2(conn) if isinstance(conn, extensions.connection) and not conn.async_ else None


class Psycopg2:
    engine: Engine = "postgres"

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def check(self) -> None:
        if self._conn.autocommit and self._conn.get_transaction_status() == extensions.TRANSACTION_STATUS_IDLE:
            raise NotInTransaction("this psycopg2 connection is in autocommit mode: set conn.autocommit = False")

    def fetch(self, statement: Statement, values: Values) -> Rows:
        with self._conn.cursor(cursor_factory=extensions.cursor) as cursor:
            cursor.execute(statement.percent, statement.in_order(values) or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def nested(self) -> AbstractContextManager[None]:
        return savepoint(self._execute)

    def transaction(self) -> AbstractContextManager[object]:
        transaction: AbstractContextManager[object] = self._conn
        return transaction

    def _execute(self, statement: str) -> None:
        with self._conn.cursor() as cursor:
            cursor.execute(statement)
