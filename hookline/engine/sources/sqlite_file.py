"""Reads an application's SQLite file. It writes nothing to the file, and holds locks only during one short read.

Only SQLite opens the file. If the application runs in this process, closing another descriptor of the file would drop
the locks that SQLite holds.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from hookline.clock import monotonic, to_micros, wall
from hookline.engine.sources.sqlite_foreign import is_foreign, shared_lock
from hookline.engine.sources.sqlite_rows import COLUMNS, place_of, uid_of
from hookline.errors import SourceUnavailable
from hookline.model.outbox import OutboxPlace
from hookline.store.sqlite.errors import code_of

STAT_INTERVAL = 0.005  # seconds between two checks of the file's modification time
READ_INTERVAL = 0.25  # seconds between reads, if the modification time does not change
READ_INTERVAL_FRESH = 0.01  # seconds between reads while the file is fresh (see FRESH)
# Nanoseconds after a write for which the file is fresh: the write may not be visible yet, and the next write may get
# the same modification time.
FRESH = 50_000_000
MAX_BYTES = 8 << 20  # payload bytes in one batch
MAX_READ = 3.0  # maximum seconds of a read; only a slow view in place of the table takes so long
_STEPS = 100_000  # steps of SQLite's virtual machine between two checks of the clock; a batch needs fewer
_BUSY = 0.1  # seconds that SQLite waits for a lock
_MAX_LOCKED = 10.0  # seconds without a successful read before an error is reported

_UID = "SELECT uid FROM hookline_outbox WHERE id = ?"
_ROWS = f"SELECT {', '.join(COLUMNS)} FROM hookline_outbox WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608
_ALL = f"SELECT {', '.join(COLUMNS)} FROM hookline_outbox ORDER BY id LIMIT ?"  # noqa: S608

_Stamp = tuple[int, int, int] | None  # inode, time and size; None if the file does not exist


class Absent(Exception):
    """The file or the table does not exist yet. The message of the exception is for operators."""


class TemporarilyUnreadable(Exception):
    """The file cannot be read now, because the application is using it. Try again in a moment."""


class Batch(Struct, frozen=True, kw_only=True):
    rows: list[Mapping[str, Any]]
    end: OutboxPlace | None  # the place of the last row
    more: bool  # there may be more rows after the last one


class Stamps(Struct, frozen=True):
    """The times and sizes of the file and its WAL. A change means that somebody has written. Reading them needs no
    lock."""

    database: _Stamp
    wal: _Stamp

    @property
    def newest(self) -> int:
        return max(stamp[1] for stamp in (self.database, self.wal, (0, 0, 0)) if stamp is not None)


class SqliteFile:
    """An application's SQLite file. The path may be a symbolic link whose target changes."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._real, self._wal = _resolve(self.path)
        self._seen: Stamps | None = None  # the stamps before the last read
        self._seen_at = 0.0
        self._read_at = monotonic()  # the time of the last successful read
        self._settled = False  # False: the file was fresh at the last read (see `FRESH`), or could not be read

    def read(self, place: OutboxPlace | None, limit: int) -> Batch:
        """Return the rows after the place, or all rows if the row that the place names is no longer in the file."""
        with self.reading() as conn:
            return _batch(conn, place, limit)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one short read of committed data.

        Raises `Absent`, `TemporarilyUnreadable` or `SourceUnavailable`, on entry or on exit. Discard the data after an
        error.
        """
        self._note_stamps()
        try:
            with self._foreign_lock(), self._connected() as conn:
                yield conn
        except sqlite3.Error as error:
            raise self._translated(error) from error
        except FileNotFoundError:
            raise TemporarilyUnreadable from None
        except PermissionError as error:
            raise SourceUnavailable(f"{self.path}: {_REASONS[sqlite3.SQLITE_CANTOPEN]}") from error
        self._read_at = monotonic()

    def has_wal(self) -> bool:
        """Return whether the journal mode is WAL."""
        return _stamp(self._wal) is not None or self._is_wal_at_rest()

    def await_change(self, timeout: float, cancelled: threading.Event) -> None:
        """Wait until a read may find new rows, at most `timeout` seconds."""
        if self._seen is None:
            return
        until = min(monotonic() + timeout, self._seen_at + (READ_INTERVAL if self._settled else READ_INTERVAL_FRESH))
        while not cancelled.wait(min(STAT_INTERVAL, max(0.0, until - monotonic()))):
            if monotonic() >= until or self._stamps() != self._seen:
                return

    # ── without a lock ──

    def _note_stamps(self) -> None:
        self._real, self._wal = _resolve(self.path)
        self._seen, self._seen_at = self._stamps(), monotonic()
        self._settled = abs(to_micros(wall()) * 1000 - self._seen.newest) > FRESH
        if self._seen.database is None:
            raise Absent(f"{self.path} does not exist yet: the application must create it")

    def _stamps(self) -> Stamps:
        return Stamps(_stamp(self.path), _stamp(self._wal))

    # ── with SQLite ──

    @contextmanager
    def _foreign_lock(self) -> Iterator[None]:
        """Lock the file of another user, so that SQLite creates no `-wal` and `-shm` files that belong to our user."""
        if not is_foreign(self._real):
            yield
            return
        with shared_lock(self._real) as locked:
            if not locked:
                raise self._unreadable(_LOCKED)
            if _stamp(self._wal) is not None and _stamp(self._real.with_name(f"{self._real.name}-shm")) is None:
                raise self._unreadable(_REASONS[sqlite3.SQLITE_READONLY])
            yield

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Connect. A WAL-mode file that nobody has open has no WAL, and SQLite would create one that belongs to our
        user.

        The application could not use that WAL. So such a file is opened as immutable, and the data is used only if the
        file did not change meanwhile.
        """
        if not self._is_wal_at_rest():
            with closing(self._connect("mode=ro")) as conn:
                yield conn
            return
        with closing(self._connect("mode=ro&immutable=1")) as conn:
            try:
                yield conn
            except sqlite3.Error:
                self._check_unchanged()
                raise
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        if not self._settled or self._stamps() != self._seen:
            raise TemporarilyUnreadable from None

    def _is_wal_at_rest(self) -> bool:
        """Return whether the file is in WAL mode and nobody has it open.

        To find out, this opens the file with `nolock`, which SQLite refuses for a file in WAL mode. A file that has a
        journal beside it is not in WAL mode.
        """
        if _stamp(self._wal) is not None or _stamp(self._real.with_name(f"{self._real.name}-journal")) is not None:
            return False
        with closing(self._connect("mode=ro&nolock=1")) as conn:
            try:
                conn.execute("PRAGMA schema_version").fetchone()
            except sqlite3.DatabaseError as error:
                return code_of(error) == sqlite3.SQLITE_CANTOPEN
        return False

    def _connect(self, how: str) -> sqlite3.Connection:
        uri = f"file:{quote(str(self._real))}?{how}"
        conn = sqlite3.connect(uri, uri=True, timeout=_BUSY, isolation_level=None, check_same_thread=False)
        conn.row_factory = sqlite3.Row
        conn.text_factory = bytes  # the application may have stored text that is not UTF-8
        give_up = monotonic() + MAX_READ
        conn.set_progress_handler(lambda: monotonic() > give_up, _STEPS)
        return conn

    def _unreadable(self, reason: str) -> Exception:
        """Return the error for an unreadable file: `TemporarilyUnreadable` until `_MAX_LOCKED` seconds after the last
        successful read, and then `SourceUnavailable`."""
        self._settled = False
        if monotonic() < self._read_at + _MAX_LOCKED:
            return TemporarilyUnreadable()
        return SourceUnavailable(f"{self.path}: {reason}")

    def _translated(self, error: sqlite3.Error) -> Exception:
        code, text = code_of(error), str(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return self._unreadable(_LOCKED)
        if "no such table" in text:
            advice = "run `hookline migrate`, or `hookline outbox install`"
            return Absent(f"{self.path} has no table hookline_outbox yet: {advice}")
        if "no such column" in text:
            return SourceUnavailable(f"{self.path}: the table hookline_outbox is not Hookline's: {text}")
        return SourceUnavailable(f"{self.path}: {_REASONS.get(code, text)}")


_LOCKED = f"another process has locked it for {_MAX_LOCKED:g} seconds or more"
_REASONS = {
    sqlite3.SQLITE_INTERRUPT: f"a read of hookline_outbox took longer than {MAX_READ:g} seconds: is it Hookline's table?",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: may this user read it?",
    sqlite3.SQLITE_READONLY: "a transaction was not finished; the application repairs the file when it opens it again",
}


def _batch(conn: sqlite3.Connection, place: OutboxPlace | None, limit: int) -> Batch:
    conn.execute("BEGIN")
    last = last_copied(conn, place)
    cursor = conn.execute(_ALL, (limit,)) if last is None else conn.execute(_ROWS, (last, limit))
    rows: list[Mapping[str, Any]] = []
    size = 0
    for row in cursor:
        rows.append(dict(zip(COLUMNS, row, strict=True)))
        payload = row["payload"]
        size += len(payload) if isinstance(payload, bytes) else 0
        if size > MAX_BYTES:
            break
    cursor.close()
    if not all(isinstance(row["id"], int) for row in rows):
        raise SourceUnavailable("the table hookline_outbox is not Hookline's: its id is not an INTEGER PRIMARY KEY")
    return Batch(rows=rows, end=place_of(rows[-1]) if rows else None, more=size > MAX_BYTES or len(rows) == limit)


def last_copied(conn: sqlite3.Connection, place: OutboxPlace | None) -> int | None:
    """Return the id of the row that `place` names.

    Return None if the row is gone: the file was replaced or restored.
    """
    found = None if place is None else conn.execute(_UID, (place.row_id,)).fetchone()
    return place.row_id if place is not None and found and uid_of(found["uid"]) == place.row_uid else None


def _resolve(path: Path) -> tuple[Path, Path]:
    """Return the target of a symbolic link and its WAL. SQLite puts the WAL beside the target, not beside the link."""
    real = Path(os.path.realpath(path))
    return real, real.with_name(f"{real.name}-wal")


def _stamp(file: Path) -> _Stamp:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
