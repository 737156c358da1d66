"""SQLAlchemy 2: Connection, Session, scoped_session and their async twins, on PostgreSQL and SQLite with any driver."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext import asyncio as sa_asyncio
from sqlalchemy.orm import Session, scoped_session

from hookline.outbox.adapters.sqlite import commits_by_itself
from hookline.outbox.errors import NotInTransaction
from hookline.outbox.handle import engine_of
from hookline.receive.inbox.adapters.base import saved, saved_async
from hookline.receive.inbox.adapters.sqlite import BEGIN
from hookline.receive.inbox.statement import Engine, Rows, Statement, Values


def sync(conn: Any) -> SqlAlchemy | None:
    if isinstance(conn, scoped_session):
        conn = conn()
    return SqlAlchemy(conn) if isinstance(conn, sa.Connection | Session) else None


def asynchronous(conn: Any) -> AsyncSqlAlchemy | None:
    if isinstance(conn, sa_asyncio.async_scoped_session):
        conn = conn()
    known = sa_asyncio.AsyncConnection | sa_asyncio.AsyncSession
    return AsyncSqlAlchemy(conn) if isinstance(conn, known) else None


class SqlAlchemy:
    def __init__(self, conn: sa.Connection | Session) -> None:
        self._conn = conn

    @property
    def engine(self) -> Engine:
        bind = self._conn if isinstance(self._conn, sa.Connection) else self._conn.get_bind()
        return engine_of(bind.dialect.name)

    def check(self) -> None:
        """The connection has begun by then, as the statement would: an application may have its own BEGIN sent then."""
        begun = not self._conn.in_transaction()
        connection = self._connection()
        if begun and not connection.in_transaction():
            connection.begin()
        if _commits_by_itself(connection):
            if begun:
                self._conn.rollback()
            raise NotInTransaction(
                "this SQLAlchemy connection has the isolation level AUTOCOMMIT, so that each statement is committed by itself: "
                "use one without it"
            )

    def fetch(self, statement: Statement, values: Values) -> Rows:
        result = self._connection().execute(_text(statement), statement.named(values))
        return [tuple(row) for row in result] if result.returns_rows else []

    def nested(self) -> AbstractContextManager[None]:
        return saved(self.begin_nested, lambda point: point.commit(), lambda point: point.rollback())

    def begin_nested(self) -> Any:
        """Of a session, its own: pending objects of a block that raises go with it."""
        connection = self._connection()
        if self.engine == "sqlite" and not _driver(connection).in_transaction:
            connection.exec_driver_sql(BEGIN)
        return self._conn.begin_nested()

    def transaction(self) -> AbstractContextManager[object]:
        return self._conn.begin()

    def _connection(self) -> sa.Connection:
        if isinstance(self._conn, sa.Connection):
            return self._conn
        try:
            return self._conn.connection()
        except UnboundExecutionError as error:
            error.add_note(
                "Say which of the session's databases: session.connection(bind_arguments={...}) gives its connection."
            )
            raise


class AsyncSqlAlchemy:
    """Its sync side, run as SQLAlchemy runs it."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    @property
    def engine(self) -> Engine:
        if isinstance(self._conn, sa_asyncio.AsyncSession):
            return SqlAlchemy(self._conn.sync_session).engine
        return engine_of(self._conn.engine.dialect.name)

    async def check(self) -> None:
        await self._conn.run_sync(lambda inner: SqlAlchemy(inner).check())

    async def fetch(self, statement: Statement, values: Values) -> Rows:
        rows: Rows = await self._conn.run_sync(lambda inner: SqlAlchemy(inner).fetch(statement, values))
        return rows

    def nested(self) -> AbstractAsyncContextManager[None]:
        run = self._conn.run_sync
        return saved_async(
            lambda: run(lambda inner: SqlAlchemy(inner).begin_nested()),
            lambda point: run(lambda _: point.commit()),
            lambda point: run(lambda _: point.rollback()),
        )

    def transaction(self) -> AbstractAsyncContextManager[object]:
        transaction: AbstractAsyncContextManager[object] = self._conn.begin()
        return transaction


@cache
def _text(statement: Statement) -> sa.TextClause:
    return sa.text(statement.text)


def _commits_by_itself(connection: sa.Connection) -> bool:
    """What the driver does counts, whoever told it so."""
    if connection.dialect.name == "sqlite":
        return commits_by_itself(_driver(connection))
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


def _driver(connection: sa.Connection) -> Any:
    return connection.connection.driver_connection
