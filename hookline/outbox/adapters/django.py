"""Django: `django.db.connection` or `connections[alias]`, on PostgreSQL and SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookline.outbox.adapters import statements
from hookline.outbox.adapters.prune import on, prune
from hookline.outbox.adapters.trouble import explained
from hookline.outbox.errors import NotInTransaction, UnknownConnection
from hookline.outbox.event import Event

_SELECT = statements.POSTGRES.format("%s")
_INSERT = statements.SQLITE.format(", ".join("%s" for _ in statements.COLUMNS))


def write(conn: Any, events: Sequence[Event]) -> None:
    vendor = getattr(conn, "vendor", None)
    if not hasattr(conn, "in_atomic_block"):
        raise UnknownConnection(f"{type(conn).__name__} of django: give django.db.connection or connections[alias]")
    if vendor not in ("postgresql", "sqlite"):
        raise UnknownConnection(f"there is no outbox for Django's {vendor}, only for postgresql and sqlite")
    if not conn.in_atomic_block and conn.get_autocommit():
        raise NotInTransaction(
            "Django commits each statement by itself outside a transaction: "
            f"call publish inside `with transaction.atomic(using={conn.alias!r}):`"
        )
    with explained, conn.cursor() as cursor:
        if vendor == "postgresql":
            cursor.execute(_SELECT, [statements.as_document(events)])
        else:
            cursor.executemany(_INSERT, statements.as_rows(events))
            prune(on(conn.connection))  # beside Django, so that a publish is one query to whoever counts them
