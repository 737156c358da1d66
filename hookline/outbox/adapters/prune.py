"""Deletion of relayed events from the outbox of an application's SQLite file.

The application's next publish deletes them, in its own transaction. Hookline never writes to that file,
because a commit of another process makes each transaction fail that has read from the file and then writes to it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from hookline.clock import monotonic
from hookline.model.outbox import OutboxPlace
from hookline.outbox import marker

# Runs one statement with its values, in the transaction that publishes, and returns the rows as tuples.
Run = Callable[[str, Any], list[tuple[Any, ...]]]

MAX_ROWS = 1000  # rows that one publish deletes at most
ROWS_PER_DELETE = 20  # maximum rows of one DELETE; rows may be large
MAX_SECONDS = 0.02  # seconds after which no further DELETE starts
_LARGEST = (1 << 63) - 1

LIST_FILES = "PRAGMA database_list"
_SAME = "SELECT 1 FROM hookline_outbox WHERE id = ? AND uid = ?"
# Deletes the lowest ids first, so that the last relayed row is deleted last.
_DELETE = "DELETE FROM hookline_outbox WHERE id IN (SELECT id FROM hookline_outbox WHERE id <= ? ORDER BY id LIMIT ?)"


def runner(conn: Any) -> Run:
    """Return a `Run` for a connection of a driver. It ignores the row factory of the application."""

    def run(statement: str, values: Any) -> list[tuple[Any, ...]]:
        cursor = conn.cursor()
        if isinstance(cursor, sqlite3.Cursor):
            cursor.row_factory = None
        try:
            cursor.execute(statement, values)
            return list(cursor.fetchall())
        finally:
            cursor.close()

    return run


def prune(run: Run) -> None:
    """Delete relayed rows after an INSERT of events, in its transaction. If there are no relayed rows, this costs two
    short queries."""
    place = marked_place(run(LIST_FILES, ()))
    if place is not None:
        delete_relayed(run, place)


def marked_place(files: list[tuple[Any, ...]]) -> OutboxPlace | None:
    """Return the last row that Hookline relayed, as the marker file beside the SQLite file names it. `files` are the
    rows that the query `LIST_FILES` returned."""
    database = next((str(file) for _, name, file in files if name == "main" and file), "")
    return marker.read(database) if database else None


def delete_relayed(run: Run, place: OutboxPlace) -> bool:
    """Delete at most `MAX_ROWS` relayed rows (rows up to `place`). Start no further DELETE after `MAX_SECONDS`.

    Return False, and delete nothing, if the connection's SQLite file does not contain the row that `place` names.
    """
    same = (place.row_id, place.row_uid)
    if not 0 < place.row_id <= _LARGEST or not run(_SAME, same):
        return False
    left, until = MAX_ROWS, monotonic() + MAX_SECONDS
    while True:
        run(_DELETE, (place.row_id, min(ROWS_PER_DELETE, left)))
        left -= ROWS_PER_DELETE
        if left <= 0 or monotonic() >= until or not run(_SAME, same):
            return True
