"""SQLAlchemy 2: Connection, Session, scoped_session and their async twins, on PostgreSQL and SQLite with any driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from hookline.outbox.adapters import sqlite, statements
from hookline.outbox.adapters.prune import Run, prune
from hookline.outbox.adapters.trouble import explained
from hookline.outbox.errors import NotInTransaction, UnknownConnection
from hookline.outbox.event import Event

_SELECT = text(statements.POSTGRES.format(":events"))
_INSERT = text(statements.SQLITE.format(", ".join(f":{column}" for column in statements.COLUMNS)))


def write(conn: Any, events: Sequence[Event]) -> None:
    connection = _connection(conn)
    dialect = connection.dialect.name
    if dialect not in _WRITES:
        raise UnknownConnection(
            f"there is no outbox for SQLAlchemy's dialect {dialect}, only for postgresql and sqlite"
        )
    _check_transaction(connection)
    with explained:
        _WRITES[dialect](connection, events)


async def write_async(conn: Any, events: Sequence[Event]) -> None:
    if isinstance(conn, async_scoped_session):
        conn = conn()
    if not isinstance(conn, AsyncConnection | AsyncSession):
        raise _unknown(conn)
    await conn.run_sync(write, events)


def _connection(conn: Any) -> Connection:
    """Of a session: that of its transaction, without a flush."""
    if isinstance(conn, scoped_session):
        conn = conn()
    if isinstance(conn, Session):
        return _of_session(conn)
    if not isinstance(conn, Connection):
        raise _unknown(conn)
    return conn


def _of_session(session: Session) -> Connection:
    try:
        return session.connection()
    except UnboundExecutionError as error:
        error.add_note(
            "Tell publish which of the session's databases: session.connection(bind_arguments={...}) gives it."
        )
        raise


def _unknown(conn: Any) -> UnknownConnection:
    name = f"{type(conn).__name__} of sqlalchemy"
    if isinstance(conn, Connection | Session | scoped_session):
        return UnknownConnection(f"{name}: use hookline.outbox.publish for it")
    if isinstance(conn, AsyncConnection | AsyncSession | async_scoped_session):
        return UnknownConnection(f"{name}: use hookline.outbox.publish_async for it")
    return UnknownConnection(f"{name}: give a Connection or a Session")


def _check_transaction(connection: Connection) -> None:
    """Begun first, as the statement would: an application may have its own BEGIN sent then."""
    begun = None if connection.in_transaction() else connection.begin()
    if _commits_by_itself(connection):
        if begun is not None:
            begun.rollback()
        raise NotInTransaction(
            "this SQLAlchemy connection has the isolation level AUTOCOMMIT, so that each statement is committed by itself: "
            "publish on one without it"
        )


def _commits_by_itself(connection: Connection) -> bool:
    """What the driver does counts, whoever told it so."""
    if connection.dialect.name == "sqlite":
        return sqlite.commits_by_itself(connection.connection.driver_connection)
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


def _write_postgres(connection: Connection, events: Sequence[Event]) -> None:
    """With `stream_results` the cursor is the server's, which runs the function when its row is fetched."""
    connection.execute(_SELECT, {"events": statements.as_document(events)}).scalar_one()


def _write_sqlite(connection: Connection, events: Sequence[Event]) -> None:
    connection.execute(_INSERT, [dict(zip(statements.COLUMNS, row, strict=True)) for row in statements.as_rows(events)])
    prune(_beside(connection))


def _beside(connection: Connection) -> Run:
    """On the driver's cursor, which is the same for both: what is deleted is nothing to SQLAlchemy's listeners."""

    def run(statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        cursor = connection.connection.cursor()
        try:
            cursor.execute(statement, values)
            return cursor.fetchall()
        finally:
            cursor.close()

    return run


_WRITES = {"postgresql": _write_postgres, "sqlite": _write_sqlite}
