"""The adapter for Django's `django.db.connection` and `connections[alias]`, on PostgreSQL and SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from django.db import transaction

from hookline.outbox.adapters.base import Adapter, Rows, Statement, Values, engine_of, script
from hookline.outbox.adapters.prune import prune, runner
from hookline.outbox.adapters.sqlite import BEGIN
from hookline.outbox.coroutines import as_async
from hookline.outbox.errors import NotInTransaction


def sync(conn: Any) -> Django | None:
    return Django(conn) if hasattr(conn, "in_atomic_block") else None


class Django(Adapter):
    def __init__(self, conn: Any) -> None:
        super().__init__(conn)
        self.engine = engine_of(conn.vendor)

    async def check(self) -> None:
        if not self._conn.in_atomic_block and self._conn.get_autocommit():
            advice = f"call this function inside `with transaction.atomic(using={self._conn.alias!r}):`"
            raise NotInTransaction(f"Django commits each statement by itself outside a transaction: {advice}")

    async def fetch(self, statement: Statement, values: Values) -> Rows:
        with self._conn.cursor() as cursor:
            cursor.execute(statement.percent, statement.for_percent(values))
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    async def run(self, statements: Sequence[str]) -> None:
        with self._conn.cursor() as cursor:
            for statement in [script(statements)] if self.engine == "postgres" else statements:
                cursor.execute(statement)

    async def prune(self) -> None:
        """Delete relayed rows through sqlite3 itself, so that Django counts only one query for each publish."""
        prune(runner(self._conn.connection))

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return as_async(transaction.atomic(using=self._conn.alias))

    async def _save(self) -> Any:
        """Use Django's own savepoints. If Django rolls back to a savepoint, it also drops the on_commit functions that
        were registered after the savepoint was created."""
        self._conn.ensure_connection()
        if self.engine == "sqlite" and not self._conn.connection.in_transaction:
            self._conn.cursor().execute(BEGIN)
        return self._conn.savepoint()

    async def _roll_back(self, savepoint: Any) -> None:
        self._conn.savepoint_rollback(savepoint)
        self._conn.savepoint_commit(savepoint)

    async def _release(self, savepoint: Any) -> None:
        self._conn.savepoint_commit(savepoint)
