"""psycopg2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg2 import extensions

from hookline.outbox.adapters import statements
from hookline.outbox.adapters.trouble import explained
from hookline.outbox.errors import NotInTransaction, UnknownConnection
from hookline.outbox.event import Event

_SELECT = statements.POSTGRES.format("%s")


def write(conn: Any, events: Sequence[Event]) -> None:
    if not isinstance(conn, extensions.connection):
        raise UnknownConnection(f"{type(conn).__name__} of psycopg2: give the connection itself")
    if conn.async_:
        raise UnknownConnection("an asynchronous connection of psycopg2 has no transactions of its own")
    if conn.autocommit and conn.get_transaction_status() == extensions.TRANSACTION_STATUS_IDLE:
        raise NotInTransaction(
            "this psycopg2 connection is in autocommit mode: set conn.autocommit = False, and commit after publish"
        )
    with explained, conn.cursor() as cursor:
        cursor.execute(_SELECT, (statements.as_document(events),))
