"""An application's SQLite file, from outside: nothing is written to it, and no lock is held longer than one short read.

The file is never opened but by SQLite: where the application is in this very process, closing another descriptor of it would
drop the locks that SQLite holds.
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
from hookline.engine.sources.sqlite_foreign import is_guest, shared_lock
from hookline.engine.sources.sqlite_rows import COLUMNS, place_of, uid_of
from hookline.errors import SourceUnavailable
from hookline.model import OutboxPlace

LOOK = 0.005  # seconds between looks at the file's times
READ = 0.25  # seconds between reads, whatever the times say ...
READ_FRESH = 0.01  # ... and while the file is fresh
FRESH = 50_000_000  # ns: what was written so recently may not be visible yet, and the next write may have the same time
MAX_BYTES = 8 << 20  # of payloads in one batch
LONGEST_READ = 3.0  # seconds; a read takes milliseconds, unless the table is a view that somebody has put there
_STEPS = 100_000  # of SQLite's machine between two looks at the clock: more than a whole batch has
_BUSY = 0.1
_PATIENCE = 10.0  # seconds of a lock before it is said

_UID = "SELECT uid FROM hookline_outbox WHERE id = ?"
_ROWS = f"SELECT {', '.join(COLUMNS)} FROM hookline_outbox WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608
_ALL = f"SELECT {', '.join(COLUMNS)} FROM hookline_outbox ORDER BY id LIMIT ?"  # noqa: S608

_Stamp = tuple[int, int, int] | None  # inode, time, size; None: not there


class Absent(Exception):
    """There is no such file or table yet. Its text is for the log."""


class NotNow(Exception):
    """The application is in the middle of something; a moment later is soon enough."""


class Batch(Struct, frozen=True, kw_only=True):
    rows: list[Mapping[str, Any]]
    end: OutboxPlace | None  # where these rows end
    more: bool  # there may be more behind them


class Stamps(Struct, frozen=True):
    """What tells, without a lock, that somebody has written."""

    database: _Stamp
    wal: _Stamp

    @property
    def newest(self) -> int:
        return max(stamp[1] for stamp in (self.database, self.wal, (0, 0, 0)) if stamp is not None)


class SqliteFile:
    """The path may be a symbolic link, and may lead to another file tomorrow."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._real, self._wal = _led_to(self.path)
        self._seen: Stamps | None = None  # before the last read
        self._seen_at = 0.0
        self._read_at = monotonic()  # the last time that it went well
        self._settled = False  # the last read came long enough after the last write to have seen it

    def read(self, place: OutboxPlace | None, limit: int) -> Batch:
        """The rows behind the place; every row, if the row at the place is not that one any more."""
        with self.reading() as conn:
            return _batch(conn, place, limit)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One short look at what is committed. `Absent`, `NotNow` or `SourceUnavailable`, also at its end."""
        self._look()
        try:
            with self._opened() as conn:
                yield conn
        except sqlite3.Error as error:
            raise self._fault(error) from error
        except FileNotFoundError:
            raise NotNow from None
        except PermissionError as error:
            raise SourceUnavailable(f"{self.path}: {_REASONS[sqlite3.SQLITE_CANTOPEN]}") from error
        self._read_at = monotonic()

    def has_wal(self) -> bool:
        """Whether its journal mode is WAL."""
        return _stamp(self._wal) is not None or self._is_wal_at_rest()

    def await_change(self, timeout: float, cancelled: threading.Event) -> None:
        """Until a read may find something, or the time is over."""
        if self._seen is None:
            return
        until = min(monotonic() + timeout, self._seen_at + (READ if self._settled else READ_FRESH))
        while not cancelled.wait(min(LOOK, max(0.0, until - monotonic()))):
            if monotonic() >= until or self._stamps() != self._seen:
                return

    # ── without a lock ──

    def _look(self) -> None:
        self._real, self._wal = _led_to(self.path)
        self._seen, self._seen_at = self._stamps(), monotonic()
        self._settled = abs(to_micros(wall()) * 1000 - self._seen.newest) > FRESH
        if self._seen.database is None:
            raise Absent(f"{self.path} is not there yet: the application makes it")

    def _stamps(self) -> Stamps:
        return Stamps(_stamp(self.path), _stamp(self._wal))

    # ── with SQLite ──

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with self._as_guest(), self._connected() as conn:
            yield conn

    @contextmanager
    def _as_guest(self) -> Iterator[None]:
        """In a file of another user nothing may be made, neither of the two files that SQLite would make."""
        if not is_guest(self._real):
            yield
            return
        with shared_lock(self._real) as locked:
            if not locked:
                raise self._hindered(_LOCKED)
            if _stamp(self._wal) is not None and _stamp(self._real.with_name(f"{self._real.name}-shm")) is None:
                raise self._hindered(_REASONS[sqlite3.SQLITE_READONLY])
            yield

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A file in WAL mode that nobody has open has no WAL. SQLite would make one, in our name, where the application
        needs its own: then it is read as it lies there, and the reading counts if nobody has touched the file meanwhile."""
        if not self._is_wal_at_rest():
            with closing(self._connect("mode=ro")) as conn:
                yield conn
            return
        with closing(self._connect("mode=ro&immutable=1")) as conn:
            try:
                yield conn
            except sqlite3.Error:
                self._check_untouched()
                raise
        self._check_untouched()

    def _check_untouched(self) -> None:
        if not self._settled or self._stamps() != self._seen:
            raise NotNow from None

    def _is_wal_at_rest(self) -> bool:
        """Without locks there can be no WAL, so that SQLite refuses a file in that mode. A journal belongs to the others."""
        if _stamp(self._wal) is not None or _stamp(self._real.with_name(f"{self._real.name}-journal")) is not None:
            return False
        with closing(self._connect("mode=ro&nolock=1")) as conn:
            try:
                conn.execute("PRAGMA schema_version").fetchone()
            except sqlite3.DatabaseError as error:
                return _code(error) == sqlite3.SQLITE_CANTOPEN
        return False

    def _connect(self, how: str) -> sqlite3.Connection:
        uri = f"file:{quote(str(self._real))}?{how}"
        conn = sqlite3.connect(uri, uri=True, timeout=_BUSY, isolation_level=None, check_same_thread=False)
        conn.row_factory = sqlite3.Row
        conn.text_factory = bytes  # not every text there is UTF-8
        give_up = monotonic() + LONGEST_READ
        conn.set_progress_handler(lambda: monotonic() > give_up, _STEPS)
        return conn

    def _hindered(self, reason: str) -> Exception:
        self._settled = False
        if monotonic() < self._read_at + _PATIENCE:
            return NotNow()
        return SourceUnavailable(f"{self.path}: {reason}")

    def _fault(self, error: sqlite3.Error) -> Exception:
        code, text = _code(error), str(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return self._hindered(_LOCKED)
        if "no such table" in text:
            return Absent(
                f"{self.path} has no table hookline_outbox yet: run `hookline migrate`, or `hookline outbox install`"
            )
        if "no such column" in text:
            return SourceUnavailable(f"{self.path}: the table hookline_outbox is not Hookline's: {text}")
        return SourceUnavailable(f"{self.path}: {_REASONS.get(code, text)}")


_LOCKED = f"has been locked by somebody for {_PATIENCE:g} seconds and more"
_REASONS = {
    sqlite3.SQLITE_INTERRUPT: f"a read of hookline_outbox took longer than {LONGEST_READ:g} seconds: is it Hookline's table?",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: may this user read it?",
    sqlite3.SQLITE_READONLY: "was left in the middle of a transaction; the application mends it when it opens it next",
}


def _batch(conn: sqlite3.Connection, place: OutboxPlace | None, limit: int) -> Batch:
    conn.execute("BEGIN")
    known = place is not None and _stands(conn, place)
    cursor = conn.execute(_ROWS, (place.row_id, limit)) if known and place else conn.execute(_ALL, (limit,))
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
        raise SourceUnavailable("the table hookline_outbox is not Hookline's: its id is no INTEGER PRIMARY KEY")
    return Batch(rows=rows, end=place_of(rows[-1]) if rows else None, more=size > MAX_BYTES or len(rows) == limit)


def _stands(conn: sqlite3.Connection, place: OutboxPlace) -> bool:
    """A file that was replaced, or restored from a backup, has another row there or none."""
    found = conn.execute(_UID, (place.row_id,)).fetchone()
    return found is not None and uid_of(found["uid"]) == place.row_uid


def _led_to(path: Path) -> tuple[Path, Path]:
    """The file itself, and its WAL, which is beside it and not beside a link."""
    real = Path(os.path.realpath(path))
    return real, real.with_name(f"{real.name}-wal")


def _stamp(file: Path) -> _Stamp:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
