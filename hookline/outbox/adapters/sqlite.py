"""The adapter for sqlite3 of the standard library."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hookline.outbox.adapters.base import Adapter, Rows, Statement, Values
from hookline.outbox.adapters.prune import prune, runner
from hookline.outbox.errors import NotInTransaction

# Take the write lock at once. A transaction that has read before its first write cannot wait for the lock.
BEGIN = "BEGIN IMMEDIATE"


def sync(conn: Any) -> Sqlite | None:
    return Sqlite(conn) if isinstance(conn, sqlite3.Connection) else None


class Sqlite(Adapter):
    engine = "sqlite"

    async def check(self) -> None:
        if commits_by_itself(self._conn):
            raise NotInTransaction(
                "this sqlite3 connection commits each statement by itself (isolation_level=None or autocommit=True): "
                'run conn.execute("BEGIN IMMEDIATE") before, or keep the default isolation_level'
            )

    async def fetch(self, statement: Statement, values: Values) -> Rows:
        return runner(self._conn)(statement.text, values)

    async def run(self, statements: Sequence[str]) -> None:
        for statement in statements:  # executescript would commit first
            self._conn.execute(statement)

    async def prune(self) -> None:
        prune(runner(self._conn))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        self._begin()
        try:
            yield
        except BaseException:
            self._end("ROLLBACK")
            raise
        self._end("COMMIT")

    async def _save(self) -> None:
        self._begin()  # without an open transaction, the release of a savepoint is a commit
        await super()._save()

    def _begin(self) -> None:
        if not self._conn.in_transaction:
            self._conn.execute(BEGIN)

    def _end(self, how: str) -> None:
        """End the transaction.

        With Python 3.12's `autocommit=True`, commit() and rollback() do nothing, so this executes SQL.
        """
        if getattr(self._conn, "autocommit", -1) is not True:
            self._conn.commit() if how == "COMMIT" else self._conn.rollback()
        elif self._conn.in_transaction:
            self._conn.execute(how)


def commits_by_itself(conn: Any) -> bool:
    """Return whether an INSERT would be committed at once.

    By default, `sqlite3` begins a transaction before an INSERT. Python 3.12 added the attribute `autocommit`. With its
    default, -1, `isolation_level` decides.
    """
    autocommit = getattr(conn, "autocommit", -1)
    return not conn.in_transaction and (autocommit is True or (autocommit == -1 and conn.isolation_level is None))
