"""sqlite3 of the standard library."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hookline.outbox.adapters.sqlite import commits_by_itself
from hookline.outbox.errors import NotInTransaction
from hookline.receive.inbox.adapters.base import savepoint
from hookline.receive.inbox.statement import Engine, Rows, Statement, Values

# Now, and not with the first write: a transaction that has read before could not wait for its turn.
BEGIN = "BEGIN IMMEDIATE"


def sync(conn: Any) -> Sqlite | None:
    return Sqlite(conn) if isinstance(conn, sqlite3.Connection) else None


class Sqlite:
    engine: Engine = "sqlite"

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn

    def check(self) -> None:
        if commits_by_itself(self._conn):
            raise NotInTransaction(
                "this sqlite3 connection commits each statement by itself (isolation_level=None or autocommit=True): "
                'run conn.execute("BEGIN IMMEDIATE") before, or leave isolation_level as it is by default'
            )

    def fetch(self, statement: Statement, values: Values) -> Rows:
        cursor = self._conn.cursor()
        cursor.row_factory = None
        try:
            rows: Rows = cursor.execute(statement.qmark, statement.in_order(values)).fetchall()
        finally:
            cursor.close()
        return rows

    @contextmanager
    def nested(self) -> Iterator[None]:
        self._begin()  # the release of a savepoint that stands alone is a commit
        with savepoint(self._conn.execute):
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._begin()
        try:
            yield
        except BaseException:
            self._end("ROLLBACK")
            raise
        self._end("COMMIT")

    def _begin(self) -> None:
        if not self._conn.in_transaction:
            self._conn.execute(BEGIN)

    def _end(self, how: str) -> None:
        """Python 3.12's `autocommit=True` makes nothing of commit() and rollback(); `False` begins anew in them."""
        if getattr(self._conn, "autocommit", -1) is not True:
            self._conn.commit() if how == "COMMIT" else self._conn.rollback()
        elif self._conn.in_transaction:
            self._conn.execute(how)
