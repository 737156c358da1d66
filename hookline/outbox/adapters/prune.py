"""What has been relayed leaves the application's SQLite file with its next publish, in the application's own transaction.

Hookline itself never writes there: a commit of another process breaks every transaction that has read and is about to write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from hookline.clock import monotonic
from hookline.model import OutboxPlace
from hookline.outbox import marker

# One statement with `?` for each value, on the connection and in the transaction of the publish; its rows as tuples.
Run = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]

MOST = 1000  # rows at a time: a publish must not pay for a week's backlog ...
FEW, LONG = 20, 0.02  # ... nor, where they are large, for more than a few, or for what has taken so many seconds
_LARGEST = (1 << 63) - 1

_FILE = "PRAGMA database_list"
_SAME = "SELECT 1 FROM hookline_outbox WHERE id = ? AND uid = ?"
# Lowest first, so that the row by which the place is known goes last.
_DELETE = "DELETE FROM hookline_outbox WHERE id IN (SELECT id FROM hookline_outbox WHERE id <= ? ORDER BY id LIMIT ?)"


def on(conn: sqlite3.Connection) -> Run:
    """Whatever row factory the application has set."""

    def run(statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        cursor = conn.cursor()
        cursor.row_factory = None
        try:
            return cursor.execute(statement, values).fetchall()
        finally:
            cursor.close()

    return run


def prune(run: Run) -> None:
    """After the INSERT, in an open transaction. Two short look-ups where there is nothing to delete."""
    database = _main_file(run(_FILE, ()))
    place = marker.read(database) if database else None
    if place is not None:
        delete_relayed(run, place)


def delete_relayed(run: Run, place: OutboxPlace) -> bool:
    """Up to `MOST` rows, if the place is one of this very file. False: it is not, or not any more."""
    same = (place.row_id, place.row_uid)
    if not 0 < place.row_id <= _LARGEST or not run(_SAME, same):
        return False
    left, until = MOST, monotonic() + LONG
    while True:
        run(_DELETE, (place.row_id, min(FEW, left)))
        left -= FEW
        if left <= 0 or monotonic() >= until or not run(_SAME, same):
            return True


def _main_file(databases: Sequence[Sequence[Any]]) -> str:
    """Its path; empty for one in memory."""
    return next((str(file) for _, name, file in databases if name == "main" and file), "")
