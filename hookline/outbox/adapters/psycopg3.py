"""psycopg 3: Connection and AsyncConnection, of a pool or not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from hookline.outbox.adapters import statements
from hookline.outbox.adapters.trouble import explained
from hookline.outbox.errors import NotInTransaction, UnknownConnection
from hookline.outbox.event import Event

_SELECT = statements.POSTGRES.format("%s")
_RAW_SELECT = statements.POSTGRES.format("$1")

_Conn = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


def write(conn: Any, events: Sequence[Event]) -> None:
    if not isinstance(conn, psycopg.Connection):
        raise _unknown(conn, psycopg.AsyncConnection, "publish_async")
    with conn.pipeline() if _undecided(conn) else nullcontext():
        _check_transaction(conn)
    with explained, conn.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(_statement(cursor), (statements.as_document(events),))


async def write_async(conn: Any, events: Sequence[Event]) -> None:
    if not isinstance(conn, psycopg.AsyncConnection):
        raise _unknown(conn, psycopg.Connection, "publish")
    async with conn.pipeline() if _undecided(conn) else nullcontext():
        _check_transaction(conn)
    with explained:
        async with conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_statement(cursor), (statements.as_document(events),))


def _unknown(conn: Any, twin: type, name: str) -> UnknownConnection:
    hint = f"use hookline.outbox.{name} for it" if isinstance(conn, twin) else "give the connection itself"
    return UnknownConnection(f"{type(conn).__name__} of psycopg: {hint}")


def _undecided(conn: _Conn) -> bool:
    """In a pipeline the state is known once it is synchronised, as one more level of it does."""
    info = conn.info
    return (
        conn.autocommit
        and info.pipeline_status != PipelineStatus.OFF
        and info.transaction_status == TransactionStatus.ACTIVE
    )


def _check_transaction(conn: _Conn) -> None:
    if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        raise NotInTransaction(
            "this psycopg connection is in autocommit mode: call publish inside `with conn.transaction():`"
        )


def _statement(cursor: Any) -> str:
    """A connection's `cursor_factory` may be the one that takes PostgreSQL's own placeholders."""
    return _RAW_SELECT if isinstance(cursor, psycopg.RawCursor | psycopg.AsyncRawCursor) else _SELECT
