"""Open the database file: its URL, its permissions and the settings of each connection."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from urllib.parse import unquote

from hookline.clock import monotonic
from hookline.errors import InvalidInput, StoreUnavailable
from hookline.store.sqlite.errors import is_busy, translate

_PREFIX = "sqlite:///"
_STATEMENTS = 512  # prepared statements that each connection caches
_CHECKPOINT_PAGES = 4000
_OLDEST = (3, 37, 0)  # the first SQLite release with STRICT tables

# Milliseconds that SQLite waits for a lock on the writer's connection. They are few, because a checkpoint must not wait
# long for readers. For the write lock, the writer itself tries again at short intervals (see `writer.py`).
WRITER_BUSY_MS = 20
READER_BUSY_MS = 5000


def path_of(url: str) -> Path:
    """Return the file's path from the URL: `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    name = unquote(url.removeprefix(_PREFIX))
    if not url.startswith(_PREFIX) or not name or "\x00" in name:
        raise InvalidInput("a SQLite URL is sqlite:///relative.db or sqlite:////absolute.db")
    return Path(name).absolute()


def prepare(path: Path) -> None:
    """Create the file, readable only by its owner, if it does not exist. SQLite gives the WAL file the same
    permissions."""
    if sqlite3.sqlite_version_info < _OLDEST:
        wanted = ".".join(map(str, _OLDEST))
        raise StoreUnavailable(f"SQLite {wanted} or newer is needed; this Python has {sqlite3.sqlite_version}")
    if not path.parent.is_dir():
        raise InvalidInput(f"the directory of the SQLite database does not exist: {path.parent}")
    if path.is_dir():
        raise InvalidInput(f"the SQLite database is a directory: {path}")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not os.access(path, os.R_OK | os.W_OK):
            raise InvalidInput(f"the SQLite database cannot be read and written by this user: {path}") from None
    except OSError as error:
        raise StoreUnavailable(f"the SQLite database cannot be created: {path}: {error.strerror}") from error


def connect(path: Path, *, writes: bool) -> sqlite3.Connection:
    """Open a connection that one thread at a time may use. Transactions begin and end explicitly."""
    conn: sqlite3.Connection | None = None
    try:
        conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS)
        _configure(conn, writes=writes)
    except BaseException as error:
        if conn is not None:
            conn.close()
        fault = translate(error)
        if fault is error:
            raise
        raise fault from error
    conn.row_factory = sqlite3.Row
    return conn


def _configure(conn: sqlite3.Connection, *, writes: bool) -> None:
    """Configure a connection and retry while the file is locked. The first process that opens a new file switches it
    to WAL. Meanwhile the others get an error at once that the file is locked, whatever their busy timeout is."""
    give_up = monotonic() + READER_BUSY_MS / 1000
    while True:
        try:
            return _set_up(conn, writes=writes)
        except sqlite3.OperationalError as error:
            if not is_busy(error) or monotonic() > give_up:
                raise
            time.sleep(0.01)


def _set_up(conn: sqlite3.Connection, *, writes: bool) -> None:
    conn.execute(f"PRAGMA busy_timeout = {WRITER_BUSY_MS if writes else READER_BUSY_MS}")
    conn.execute("PRAGMA temp_store = MEMORY")
    conn.execute("PRAGMA cache_size = -65536")
    if not writes:
        conn.execute("PRAGMA query_only = ON")
        return
    (mode,) = conn.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise InvalidInput(f"the SQLite database cannot use a write-ahead log here (journal mode {mode})")
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("PRAGMA foreign_keys = ON")
    conn.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
