"""Reads the status of an application's outbox, for `hookline outbox status` and `doctor`. It changes nothing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from hookline.clock import monotonic
from hookline.config import shown_url
from hookline.config.urls import sqlite_path
from hookline.engine.sources import open_source
from hookline.engine.sources.sqlite_file import Absent, SqliteFile, TemporarilyUnreadable, last_copied
from hookline.errors import SourceUnavailable
from hookline.model.outbox import OutboxPlace
from hookline.outbox import marker
from hookline.store import COUNTED, Store

_MAX_WAIT = 5.0  # seconds to wait for a moment in which the file can be read

# Users can insert rows by hand, so `created_at` may be out of the range of Python's datetime.
_WAITING = """
SELECT count(*) AS waiting,
       min(created_at) FILTER (WHERE created_at BETWEEN '2000-01-01' AND '3000-01-01') AS oldest
FROM (SELECT created_at FROM hookline.outbox WHERE error IS NULL ORDER BY id LIMIT $1) s
"""
_ASIDE = "SELECT count(*) FROM (SELECT FROM hookline.outbox WHERE error IS NOT NULL LIMIT $1) s"
_SQLITE_WAITING = """
SELECT count(*), min(created_at) FROM (SELECT created_at FROM hookline_outbox WHERE id > ? ORDER BY id LIMIT ?)
"""


_LOWEST = -(1 << 63)


class SourceView(Struct, frozen=True, kw_only=True):
    waiting: int  # waiting rows; the count stops at `COUNTED`
    oldest: datetime | None  # when the oldest waiting row was created
    hints: tuple[str, ...] = ()  # advice for the user


async def examine(url: str, store: Store) -> SourceView:
    """Return the status. Raises `SourceUnavailable` if the relay cannot use this outbox; its text says why and what to
    do."""
    path = sqlite_path(url)
    if path is None:
        return await _postgres(url)
    place = await store.pipeline.place(open_source(url, store).name)
    return await asyncio.to_thread(_sqlite, path, place)


async def _postgres(url: str) -> SourceView:
    from hookline.engine.sources import postgres
    from hookline.store.postgres.connection import close

    name = shown_url(url)
    connection = await postgres.connect(url)
    try:
        await postgres.check(connection, name)
        with postgres.reaching(name):
            found = await connection.fetchrow(_WAITING, COUNTED)
            aside = await connection.fetchval(_ASIDE, COUNTED)
    finally:
        await close(connection)
    return SourceView(waiting=found["waiting"], oldest=found["oldest"], hints=tuple(_aside_hints(aside)))


def _aside_hints(aside: int) -> Iterator[str]:
    if aside:
        rows = "1 row is" if aside == 1 else f"{aside:,} rows are"
        yield f"{rows} set aside there, too large to be copied: see the column error of hookline.outbox"


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sqlite(path: Path, place: OutboxPlace | None) -> SourceView:
    """Read the status. Retry for a while, because a file that was just written to cannot always be read at once."""
    file, give_up = SqliteFile(path), monotonic() + _MAX_WAIT
    while True:
        try:
            return _view(file, place)
        except Absent as absent:
            raise SourceUnavailable(str(absent)) from None
        except TemporarilyUnreadable:
            if monotonic() > give_up:
                raise SourceUnavailable(f"{path}: the application writes to it all the time") from None
            time.sleep(0.02)


def _view(file: SqliteFile, place: OutboxPlace | None) -> SourceView:
    with file.reading() as conn:
        last = last_copied(conn, place)
        waiting, oldest = conn.execute(_SQLITE_WAITING, (_LOWEST if last is None else last, COUNTED)).fetchone()
    return SourceView(waiting=waiting, oldest=_instant(oldest), hints=tuple(_hints(file.path, file.has_wal())))


def _hints(path: Path, wal: bool) -> Iterator[str]:
    if not wal:
        yield "its journal mode is not WAL, so it cannot write while Hookline reads: run PRAGMA journal_mode = WAL"
    mark = marker.path_of(path)
    if not os.access(mark.parent, os.W_OK):
        yield f"this user cannot write {mark}: relayed rows stay in the file until you run hookline outbox prune"


def _instant(raw: bytes | None) -> datetime | None:
    """Parse a time. Return None if it is invalid, because users can write to the table by hand."""
    try:
        return None if raw is None else datetime.fromisoformat(raw.decode()).astimezone(UTC)
    except (ValueError, OverflowError, AttributeError):
        return None
