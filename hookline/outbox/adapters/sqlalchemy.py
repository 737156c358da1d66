"""The adapters for connections and sessions of SQLAlchemy 2, async or not, on PostgreSQL and SQLite with any
driver."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from hookline.outbox.adapters.base import Adapter, Rows, Statement, Values, engine_of
from hookline.outbox.adapters.prune import prune, runner
from hookline.outbox.adapters.sqlite import BEGIN, commits_by_itself
from hookline.outbox.coroutines import as_async, run_sync
from hookline.outbox.errors import NotInTransaction


def sync(conn: Any) -> SqlAlchemy | None:
    if isinstance(conn, scoped_session):
        conn = conn()
    return SqlAlchemy(conn) if isinstance(conn, sa.Connection | Session) else None


def asynchronous(conn: Any) -> AsyncSqlAlchemy | None:
    if isinstance(conn, async_scoped_session):
        conn = conn()
    return AsyncSqlAlchemy(conn) if isinstance(conn, AsyncConnection | AsyncSession) else None


class SqlAlchemy(Adapter):
    def __init__(self, conn: sa.Connection | Session) -> None:
        super().__init__(conn)
        self.engine = engine_of(_bind(conn).dialect.name)

    async def check(self) -> None:
        """Refuse a connection that commits each statement by itself.

        If no transaction is open, begin one before the check, as the first statement would. The application may have an
        event listener that sends BEGIN at that moment. Until BEGIN is sent, a SQLite connection may seem to commit each
        statement by itself.
        """
        is_new = not self._conn.in_transaction()
        connection = self._connection()
        if is_new and not connection.in_transaction():
            connection.begin()
        if _commits_by_itself(connection):
            if is_new:
                self._conn.rollback()
            reason = "has the isolation level AUTOCOMMIT, so it commits each statement by itself"
            raise NotInTransaction(f"this SQLAlchemy connection {reason}: use a connection without it")

    async def fetch(self, statement: Statement, values: Values) -> Rows:
        result = self._connection().execute(_text(statement), values)
        return [tuple(row) for row in result] if result.returns_rows else []

    async def run(self, statements: Sequence[str]) -> None:
        """Run the statements one by one. The asyncpg dialect prepares what it runs, and PostgreSQL cannot prepare
        several statements as one."""
        for statement in statements:
            self._connection().exec_driver_sql(statement, execution_options={"no_parameters": True})

    async def peek(self, query: str) -> Rows:
        """Return the rows of a query. If a session has no open transaction, use a connection and not the session.

        A query on the session would begin a transaction. The end of this transaction would expire the session's
        objects.
        """
        if not isinstance(self._conn, Session) or self._conn.in_transaction():
            return await super().peek(query)
        bind = self._conn.get_bind()
        if isinstance(bind, sa.Connection):  # a test may bind a session to a connection
            return await SqlAlchemy(bind).peek(query)
        with bind.connect() as connection:
            return await SqlAlchemy(connection).peek(query)

    async def prune(self) -> None:
        """Delete relayed events from the outbox of a SQLite file. Use the driver's cursor, so that SQLAlchemy's event
        listeners do not see the statements."""
        prune(runner(self._connection().connection))

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return as_async(self._conn.begin())

    def _opens_transaction(self) -> bool:
        return not self._conn.in_transaction()

    async def _save(self) -> Any:
        """Set a savepoint with `begin_nested`, not with a SQL statement. If SQLAlchemy rolls back such a savepoint, a
        session also drops the objects that were added to the session after the savepoint. So no later flush writes
        these objects."""
        connection = self._connection()
        if self.engine == "sqlite" and not connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
            connection.exec_driver_sql(BEGIN)
        return self._conn.begin_nested()

    async def _roll_back(self, savepoint: Any) -> None:
        savepoint.rollback()

    async def _release(self, savepoint: Any) -> None:
        savepoint.commit()

    def _connection(self) -> sa.Connection:
        connection: sa.Connection = self._conn.connection() if isinstance(self._conn, Session) else self._conn
        return connection


def _run_by(method: Callable[..., Coroutine[Any, Any, Any]]) -> Any:
    """Make an async method that runs a method of `SqlAlchemy` on the synchronous connection inside the async one."""

    async def call(self: AsyncSqlAlchemy, *values: Any) -> Any:
        return await self._conn.run_sync(lambda conn: run_sync(method(SqlAlchemy(conn), *values)))

    return call


class AsyncSqlAlchemy(Adapter):
    """An async connection or session."""

    def __init__(self, conn: Any) -> None:
        super().__init__(conn)
        is_session = isinstance(conn, AsyncSession)
        self.engine = engine_of((_bind(conn.sync_session) if is_session else conn.engine).dialect.name)

    check = _run_by(SqlAlchemy.check)
    fetch = _run_by(SqlAlchemy.fetch)
    run = _run_by(SqlAlchemy.run)
    peek = _run_by(SqlAlchemy.peek)
    prune = _run_by(SqlAlchemy.prune)
    _save = _run_by(SqlAlchemy._save)
    _roll_back = _run_by(SqlAlchemy._roll_back)
    _release = _run_by(SqlAlchemy._release)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return as_async(self._conn.begin())


@cache
def _text(statement: Statement) -> sa.TextClause:
    return sa.text(statement.text)


def _bind(conn: sa.Connection | Session) -> sa.Connection | sa.Engine:
    if isinstance(conn, sa.Connection):
        return conn
    try:
        return conn.get_bind()
    except UnboundExecutionError as error:
        advice = "give session.connection(bind_arguments={...}) instead of the session."
        error.add_note(f"This session has several databases: {advice}")
        raise


def _commits_by_itself(connection: sa.Connection) -> bool:
    """Return whether the driver commits each statement by itself. Ask the driver, because either SQLAlchemy or the
    application may have set the driver's autocommit mode."""
    if connection.dialect.name == "sqlite":
        return commits_by_itself(connection.connection.driver_connection)
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))
