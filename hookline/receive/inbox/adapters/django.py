"""Django: `django.db.connection` or `connections[alias]`, on PostgreSQL and SQLite."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from django.db import transaction

from hookline.outbox.errors import NotInTransaction
from hookline.outbox.handle import engine_of
from hookline.receive.inbox.adapters.base import saved
from hookline.receive.inbox.adapters.sqlite import BEGIN
from hookline.receive.inbox.statement import Engine, Rows, Statement, Values


def sync(conn: Any) -> Django | None:
    return Django(conn) if hasattr(conn, "in_atomic_block") else None


class Django:
    def __init__(self, conn: Any) -> None:
        self._conn = conn
        self.engine: Engine = engine_of(conn.vendor)

    def check(self) -> None:
        if not self._conn.in_atomic_block and self._conn.get_autocommit():
            raise NotInTransaction(
                "Django commits each statement by itself outside a transaction: "
                f"call it inside `with transaction.atomic(using={self._conn.alias!r}):`"
            )

    def fetch(self, statement: Statement, values: Values) -> Rows:
        with self._conn.cursor() as cursor:
            cursor.execute(statement.percent, statement.in_order(values) or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def nested(self) -> AbstractContextManager[None]:
        """Django's own savepoints: what was registered for on_commit in one goes with it."""
        return saved(self._save, self._conn.savepoint_commit, self._back)

    def transaction(self) -> AbstractContextManager[object]:
        block: AbstractContextManager[object] = transaction.atomic(using=self._conn.alias)
        return block

    def _save(self) -> Any:
        self._conn.ensure_connection()
        if self.engine == "sqlite" and not self._conn.connection.in_transaction:
            self._conn.cursor().execute(BEGIN)
        return self._conn.savepoint()

    def _back(self, point: Any) -> None:
        self._conn.savepoint_rollback(point)
        self._conn.savepoint_commit(point)
