"""sqlite3 of the standard library."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from hookline.outbox.adapters import statements
from hookline.outbox.adapters.prune import on, prune
from hookline.outbox.adapters.trouble import explained
from hookline.outbox.errors import NotInTransaction, UnknownConnection
from hookline.outbox.event import Event

_INSERT = statements.SQLITE.format(", ".join("?" for _ in statements.COLUMNS))


def write(conn: Any, events: Sequence[Event]) -> None:
    if not isinstance(conn, sqlite3.Connection):
        raise UnknownConnection(f"{type(conn).__name__} of sqlite3: give its Connection")
    if commits_by_itself(conn):
        raise NotInTransaction(
            "this sqlite3 connection commits each statement by itself (isolation_level=None or autocommit=True): "
            'run conn.execute("BEGIN") before publish, or leave isolation_level as it is by default'
        )
    with explained:
        conn.executemany(_INSERT, statements.as_rows(events))
        prune(on(conn))


def commits_by_itself(conn: Any) -> bool:
    """By default `sqlite3` begins a transaction before the INSERT. `autocommit` came with Python 3.12; -1 is as before."""
    autocommit = getattr(conn, "autocommit", -1)
    return not conn.in_transaction and (autocommit is True or (autocommit == -1 and conn.isolation_level is None))
