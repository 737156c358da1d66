"""How an application's outbox stands, for `hookline outbox status` and `doctor`. Looks once, and changes nothing."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from hookline.clock import monotonic
from hookline.config import shown_url
from hookline.config.urls import sqlite_path
from hookline.engine.sources import open_source
from hookline.engine.sources.sqlite_file import Absent, NotNow, SqliteFile
from hookline.errors import SourceUnavailable
from hookline.model import OutboxPlace
from hookline.outbox import marker
from hookline.store.protocols import COUNTED, Store

_PATIENCE = 5.0  # seconds

# An instant that was written by hand can be one that Python does not have.
_WAITING = """
SELECT count(*) AS waiting,
       min(created_at) FILTER (WHERE created_at BETWEEN '2000-01-01' AND '3000-01-01') AS oldest
FROM (SELECT created_at FROM hookline.outbox WHERE error IS NULL ORDER BY id LIMIT $1) s
"""
_ASIDE = "SELECT count(*) FROM (SELECT FROM hookline.outbox WHERE error IS NOT NULL LIMIT $1) s"
_SQLITE_WAITING = """
SELECT count(*), min(created_at) FROM (SELECT created_at FROM hookline_outbox WHERE id > ? ORDER BY id LIMIT ?)
"""


_SAME = "SELECT 1 FROM hookline_outbox WHERE id = ? AND uid = ?"
_LOWEST = -(1 << 63)


class SourceView(Struct, frozen=True, kw_only=True):
    waiting: int  # counted up to a bound
    oldest: datetime | None  # of those that wait
    hints: tuple[str, ...] = ()  # what could be better


async def examine(url: str, store: Store) -> SourceView:
    """`SourceUnavailable`: it cannot be relayed from as it is; the text says why, and what to do."""
    path = sqlite_path(url)
    if path is None:
        return await _postgres(url)
    place = await store.place(open_source(url, store).name)
    return await asyncio.to_thread(_sqlite, path, place)


async def _postgres(url: str) -> SourceView:
    from hookline.engine.sources import postgres

    name = shown_url(url)
    connection = await postgres.connect(url)
    try:
        await postgres.check(connection, name)
        with postgres.reaching(name):
            found = await connection.fetchrow(_WAITING, COUNTED)
            aside = await connection.fetchval(_ASIDE, COUNTED)
    finally:
        await postgres.closed(connection)
    return SourceView(waiting=found["waiting"], oldest=found["oldest"], hints=tuple(_left_there(aside)))


def _left_there(aside: int) -> Iterator[str]:
    if aside:
        rows = "1 row stands" if aside == 1 else f"{aside:,} rows stand"
        yield f"{rows} aside there, too large to be copied: see the column error of hookline.outbox"


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sqlite(path: Path, place: OutboxPlace | None) -> SourceView:
    """Patiently: a file that was written to a moment ago cannot always be read at once."""
    file, give_up = SqliteFile(path), monotonic() + _PATIENCE
    while True:
        try:
            return _view(file, place)
        except Absent as absent:
            raise SourceUnavailable(str(absent)) from None
        except NotNow:
            if monotonic() > give_up:
                raise SourceUnavailable(f"{path}: the application is writing to it all the time") from None
            time.sleep(0.02)


def _view(file: SqliteFile, place: OutboxPlace | None) -> SourceView:
    with file.reading() as conn:
        waiting, oldest = conn.execute(_SQLITE_WAITING, (_start(conn, place), COUNTED)).fetchone()
    return SourceView(waiting=waiting, oldest=_instant(oldest), hints=tuple(_hints(file.path, file.has_wal())))


def _start(conn: sqlite3.Connection, place: OutboxPlace | None) -> int:
    """Behind the place, if the row there is still that one; else every row is new."""
    known = place is not None and conn.execute(_SAME, (place.row_id, place.row_uid)).fetchone()
    return place.row_id if place is not None and known else _LOWEST


def _hints(path: Path, wal: bool) -> Iterator[str]:
    if not wal:
        yield "its journal mode is not WAL, in which it can write while we read: PRAGMA journal_mode = WAL"
    mark = marker.path_of(path)
    if not os.access(mark.parent, os.W_OK):
        yield f"{mark} cannot be written by this user: what has been relayed stays there until hookline outbox prune"


def _instant(raw: bytes | None) -> datetime | None:
    """Anybody may have written it."""
    try:
        return None if raw is None else datetime.fromisoformat(raw.decode()).astimezone(UTC)
    except (ValueError, OverflowError, AttributeError):
        return None
