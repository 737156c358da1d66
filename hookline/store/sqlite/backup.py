"""Copy the database file while other processes write to it, check the copy, and put a copy in the place of a database.

SQLite's backup API copies page by page. By itself it starts again whenever another process writes, so under steady load
it would never end. Here the source has an open read transaction, so the copy is one snapshot and never starts again. In
WAL mode this transaction blocks no writer. `VACUUM INTO` would also copy a snapshot, but it shows no progress, and it
rebuilds every table and index.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote

from msgspec import Struct

from hookline.errors import Conflict, InvalidInput, MigrationNeeded, StoreUnavailable
from hookline.store.bounds import SCHEMA_VERSION
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.errors import code_of, is_busy, translate

_PAGES = 1024  # pages that are copied between two calls of the progress function
_STEPS = 100_000  # instructions of SQLite between two moments at which a signal can end a check
_BUSY = 5.0  # seconds to wait for a lock
_MAGIC = b"SQLite format 3\0"  # the first bytes of every SQLite database
# The bytes that SQLite locks. Each connection to a database in WAL mode holds a shared lock on them until it is closed.
_LOCKED, _LOCKED_SIZE = 0x40000000, 512
# How the source of a copy is opened, by the value of `live`. A read-only connection leaves `-wal` and `-shm` files
# behind, so a live database is opened for writing. A backup is opened read-only, because it must not be changed.
_MODES = {True: "rw", False: "ro"}
_CHECKS = {True: "PRAGMA integrity_check(1)", False: "PRAGMA quick_check(1)"}
# Error codes of failed writes. During a copy, SQLite writes to the target.
_WRITING = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE}
)

_MESSAGES = "SELECT count(*), max(created_at) FROM message"
_OPEN = "SELECT count(*) FROM delivery"
_DEAD = "SELECT count(*) FROM dead_letter WHERE resolved_at IS NULL"
_HEADS = "SELECT DISTINCT head FROM sealed_value"
_SOURCES = "SELECT source FROM outbox_place"
_OURS = "SELECT count(*) FROM sqlite_schema WHERE name IN (?, ?, ?, ?)"
_TABLES = ("migration", "message", "sealed_value", "outbox_place")  # together, only a database of Hookline has them
_VERSION = "SELECT coalesce(max(number), 0) FROM migration"


class Contents(Struct, frozen=True, kw_only=True):
    """What a copy of a database contains."""

    version: int
    messages: int
    newest_message: datetime | None  # when the newest message was created
    open_deliveries: int
    dead_letters: int  # number of unresolved dead letters
    heads: frozenset[bytes]  # the first bytes of the encrypted values, which name their keys
    sources: tuple[str, ...]  # the outboxes of applications' SQLite files


@contextmanager
def draft(file: Path) -> Iterator[Path]:
    """Create a file beside `file` that only its owner can read. When the `with` block ends, remove the new file,
    unless it was renamed."""
    path = file.with_name(f"{file.name}.partial-{token_hex(4)}")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        yield path
    finally:
        for suffix in ("", "-journal"):
            _beside(path, suffix).unlink(missing_ok=True)


def pages(source: Path, *, live: bool) -> int:
    with _about(source), closing(_open(source, _MODES[live])) as conn:
        return int(conn.execute("PRAGMA page_count").fetchone()[0])


def copy(source: Path, target: Path, advance: Callable[[int], None], *, live: bool) -> None:
    """Copy a snapshot of the database to the empty file `target`, and wait until the disk has it. `advance` gets
    the number of pages that were copied since its last call. `live`: the source is the database of a deployment."""
    left: int | None = None

    def progress(_status: int, remaining: int, total: int) -> None:
        nonlocal left
        advance((total if left is None else left) - remaining)
        left = remaining

    with (
        _about(source, written=target),
        closing(_open(source, _MODES[live])) as conn,
        closing(_open(target, "rw")) as copied,
    ):
        conn.execute("BEGIN")
        conn.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # BEGIN alone does not start the snapshot
        copied.execute("PRAGMA synchronous = OFF")  # `_sync` below waits for the disk
        conn.backup(copied, pages=_PAGES, progress=progress)
        # The header of the copy still says WAL mode. Change it, because a backup must be one file.
        copied.execute("PRAGMA journal_mode = DELETE")
    _sync(target)


def examine(copied: Path, name: Path, *, indexes: bool) -> Contents:
    """Check the copy and return what it contains. Errors show `name`, the file that was copied. `indexes`: also compare
    each index with its table, which takes much longer."""
    with _about(name), closing(_open(copied, "ro")) as conn:
        conn.set_progress_handler(lambda: None, _STEPS)  # Python handles signals in this call
        (fault,) = conn.execute(_CHECKS[indexes]).fetchone()
        if fault != "ok":
            raise InvalidInput(f"{name} is damaged: {fault}")
        try:
            return _contents(conn, name)
        except sqlite3.OperationalError as error:
            if "no such" not in str(error):
                raise
            raise InvalidInput(f"{name} is not a database of Hookline") from error


def _contents(conn: sqlite3.Connection, name: Path) -> Contents:
    (version,) = conn.execute(_VERSION).fetchone()
    if version > SCHEMA_VERSION:
        raise MigrationNeeded(f"{name} is at version {version}, newer than this release ({SCHEMA_VERSION})")
    messages, newest = conn.execute(_MESSAGES).fetchone()
    return Contents(
        version=version,
        messages=messages,
        newest_message=None if newest is None else instant(newest),
        open_deliveries=conn.execute(_OPEN).fetchone()[0],
        dead_letters=conn.execute(_DEAD).fetchone()[0],
        heads=frozenset(head for (head,) in conn.execute(_HEADS)),
        sources=tuple(source for (source,) in conn.execute(_SOURCES)),
    )


def is_backup(file: Path) -> bool:
    """Return whether the file is a database of Hookline or empty, so that a new backup may replace it. A WAL beside it
    is not read, because SQLite would change the file and the WAL."""
    if file.stat().st_size == 0:
        return True
    try:
        with closing(_open(file, "ro&immutable=1")) as conn:
            return int(conn.execute(_OURS, _TABLES).fetchone()[0]) == len(_TABLES)
    except sqlite3.DatabaseError:
        return False


def leftovers(file: Path) -> list[Path]:
    """Return the files that a killed process left beside a database. SQLite would apply them to a new `file`."""
    return [path for suffix in ("-wal", "-journal", "-shm") if os.path.lexists(path := _beside(file, suffix))]


def replace(file: Path, copied: Path) -> None:
    """Rename the copy to `file`. If `file` is an old backup, its WAL or journal is applied to it first. So at each
    moment `file` is either the complete old backup or the complete new one."""
    with ExitStack() as locks:
        if file.exists():
            _merge_wal(file)
            locks.enter_context(_locked(file))
        for path in leftovers(file):
            path.unlink()
        _rename(copied, file)


def _rename(copied: Path, file: Path) -> None:
    copied.replace(file)
    _sync(file.parent)


# ── restore ───────────────────────────────────────────────────────────────────────────────────────────────────────


def check_unused(database: Path) -> None:
    with _locked(database):
        return


def put(copied: Path, database: Path, aside: Path) -> None:
    """Replace the database by the copy, atomically. The replaced database is then at `aside`."""
    _resemble(copied, database if database.exists() else database.parent)
    with ExitStack() as locks:
        if database.exists():
            _merge_wal(database)
            locks.enter_context(_locked(database))
            os.link(database, aside)
        _move_beside(database, aside)
        _rename(copied, database)


def _resemble(copied: Path, like: Path) -> None:
    """Give the copy the owner and the permissions of `like`, the database that it replaces. If there is no such
    database, `like` is the directory, and the copy gets only its owner. Only root can change the owner."""
    found = like.stat()
    if os.geteuid() == 0:
        os.chown(copied, found.st_uid, found.st_gid)
    if like.is_file():
        copied.chmod(found.st_mode & 0o777)


def _merge_wal(database: Path) -> None:
    """Write the WAL into the database file, so that the replaced database is one file. If the file is not a database,
    do nothing, because SQLite would delete the WAL."""
    with database.open("rb") as opened:
        if opened.read(len(_MAGIC)) not in (_MAGIC, b""):
            return
    with closing(_open(database, "rw")) as conn:
        try:
            conn.execute("PRAGMA journal_mode = DELETE").fetchone()
        except sqlite3.DatabaseError as error:
            if is_busy(error):
                raise _in_use(database) from error


def _move_beside(database: Path, aside: Path) -> None:
    """Move a WAL and a journal that a killed process left beside `database`. Afterwards they are beside `aside`.
    SQLite would write them into the restored database."""
    for suffix in ("-wal", "-journal"):
        if _beside(database, suffix).exists():
            _beside(database, suffix).replace(_beside(aside, suffix))
    _beside(database, "-shm").unlink(missing_ok=True)


@contextmanager
def _locked(database: Path) -> Iterator[None]:
    """Lock every other process out of the database. This works on a damaged database too.

    This process must have no connection to the file: closing one would drop the lock.
    """
    fd = os.open(database, os.O_RDWR | os.O_CLOEXEC)
    try:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKED_SIZE, _LOCKED)
        except (BlockingIOError, PermissionError) as error:
            raise _in_use(database) from error
        yield
    finally:
        os.close(fd)


def _in_use(database: Path) -> Conflict:
    return Conflict(f"{database} is in use: stop every process that uses it (serve, worker, relay) first")


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _open(file: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(file))}?mode={mode}", uri=True, timeout=_BUSY, isolation_level=None)


@contextmanager
def _about(file: Path, written: Path | None = None) -> Iterator[None]:
    """Translate SQLite's errors. The message names `file`, or `written` if SQLite could not write to that file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if code_of(error) == sqlite3.SQLITE_NOTADB:
            raise InvalidInput(f"{file} is not a SQLite database") from error
        if code_of(error) == sqlite3.SQLITE_CORRUPT:
            raise InvalidInput(f"{file} is damaged: {error}") from error
        if code_of(error) == sqlite3.SQLITE_INTERRUPT:  # sqlite3 drops the exception of a progress handler
            raise KeyboardInterrupt from error
        fault = translate(error)
        if isinstance(fault, StoreUnavailable):
            failed = written if written and error.sqlite_errorcode in _WRITING else file
            raise StoreUnavailable(f"{failed}: {fault}") from error
        raise


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(f"{file.name}{suffix}")


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
