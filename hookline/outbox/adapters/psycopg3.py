"""The adapter for connections of psycopg 3, async or not, including connections from a pool."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from hookline.outbox.adapters.base import Adapter, Rows, Statement, Values, script
from hookline.outbox.coroutines import as_async, settled
from hookline.outbox.errors import NotInTransaction


def sync(conn: Any) -> Psycopg | None:
    return Psycopg(conn) if isinstance(conn, psycopg.Connection) else None


def asynchronous(conn: Any) -> Psycopg | None:
    return Psycopg(conn) if isinstance(conn, psycopg.AsyncConnection) else None


class Psycopg(Adapter):
    async def check(self) -> None:
        """Raise `NotInTransaction` if the connection is in autocommit mode and no transaction is open.

        In pipeline mode, psycopg knows the transaction status only after a sync. A nested `pipeline()` block causes a
        sync when it ends.
        """
        info = self._conn.info
        if not self._conn.autocommit:
            return
        if info.pipeline_status != PipelineStatus.OFF and info.transaction_status == TransactionStatus.ACTIVE:
            async with as_async(self._conn.pipeline()):
                pass
        if info.transaction_status == TransactionStatus.IDLE:
            advice = "call this function inside `with conn.transaction():`"
            raise NotInTransaction(f"this psycopg connection is in autocommit mode: {advice}")

    async def fetch(self, statement: Statement, values: Values) -> Rows:
        cursor = self._conn.cursor(row_factory=tuple_row)
        await settled(cursor.execute(*_in_style_of(cursor, statement, values)))
        rows: Rows = await settled(cursor.fetchall()) if cursor.description else []
        return rows

    async def run(self, statements: Sequence[str]) -> None:
        await settled(self._conn.execute(script(statements)))

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return as_async(self._conn.transaction())

    def _opens_transaction(self) -> bool:
        return self._conn.info.transaction_status == TransactionStatus.IDLE and not self._conn.autocommit


def _in_style_of(cursor: Any, statement: Statement, values: Values) -> tuple[str, list[Any] | None]:
    """Return the SQL and its values. A raw cursor (see `cursor_factory`) takes PostgreSQL's own placeholders."""
    if isinstance(cursor, psycopg.RawCursor | psycopg.AsyncRawCursor):
        return statement.numbered, statement.for_numbered(values) or None
    return statement.percent, statement.for_percent(values)
