"""Idempotency keys in a SQLite file: for one machine, with any number of processes and threads.

    keys = SqliteKeys("/var/lib/shop/keys.db")

Use a separate file. In the application's own file, the application and the store would wait for each other's writes.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from hookline import clock
from hookline.errors import InvalidInput
from hookline.receive.idempotency import keys

__all__ = ["AsyncSqliteKeys", "SqliteKeys"]

T = TypeVar("T")

# Instants are microseconds since 1970. A row is valid until `expires_at`. `lease` is the length of the lease in
# microseconds. If `lease_until` is later than the current time plus `lease`, the clock was set back.
_TABLE = """
CREATE TABLE IF NOT EXISTS hookline_idempotency (
    key         BLOB PRIMARY KEY,
    fingerprint BLOB NOT NULL,
    token       BLOB NOT NULL,
    runs        INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    response    BLOB,
    lease       INTEGER NOT NULL DEFAULT 0
)
"""
# For a file of an earlier release. Processes of that release may still use the file. They insert rows without this
# column, so the column is 0 in these rows.
_ADD_LEASE = "ALTER TABLE hookline_idempotency ADD COLUMN lease INTEGER NOT NULL DEFAULT 0"
_INDEX = "CREATE INDEX IF NOT EXISTS hookline_idempotency_expires_at ON hookline_idempotency (expires_at)"
_READ = """
SELECT fingerprint, token, runs, lease_until, lease, response FROM hookline_idempotency WHERE key = ? AND expires_at > ?
"""
_TAKE = """
INSERT OR REPLACE INTO hookline_idempotency (key, fingerprint, token, runs, lease_until, expires_at, lease)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_RENEW = """
UPDATE hookline_idempotency SET lease_until = ?, expires_at = ?, lease = ?
WHERE key = ? AND token = ? AND response IS NULL
"""
_FINISH = "UPDATE hookline_idempotency SET response = ?, expires_at = ? WHERE key = ? AND token = ?"
_RELEASE = "DELETE FROM hookline_idempotency WHERE key = ? AND token = ? AND response IS NULL"
_CLEAN = """
DELETE FROM hookline_idempotency WHERE rowid IN
    (SELECT rowid FROM hookline_idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)
"""

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# Calls of `AsyncSqliteKeys` wait in line for its thread. A call fails if it has waited for longer than its timeout plus
# this many seconds. On a busy machine, the thread may start a call late although the file is not locked.
_MARGIN = 1.0


class _Held(Struct, frozen=True):
    """The row of an idempotency key that has not expired."""

    fingerprint: bytes
    token: bytes
    runs: int
    lease_until: int
    lease: int
    response: bytes | None

    @property
    def is_too_far(self) -> bool:
        """Return True if the end of the lease is so late that the clock must have been set back."""
        return self.response is None and 0 < self.lease < self.lease_until - _after(0)


class _Own:
    """The connection of one process, and the lock that gives it to one thread at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.conn: sqlite3.Connection | None = None


class SqliteKeys:
    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 5.0) -> None:
        """The first call of a method creates the file. `timeout`: seconds for which a write waits for other writes."""
        self._path = _checked(path)
        self._timeout = keys.checked_timeout(timeout)
        self._by_process: dict[int, _Own] = {}

    def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> keys.Answer:
        with self._lent() as conn:
            held = _read(conn, key)
            answer = _judge(held, fingerprint, token)
            if not isinstance(answer, keys.Fresh) and not (held and held.is_too_far):
                return answer  # most copies of a request get their answer here, without the write lock
            # With `synchronous = NORMAL`, a commit does not flush to the disk. Only a crash of the machine can lose
            # the row, and a crash of the machine also ends the handler.
            with _writing(conn, "NORMAL"):
                held = _read(conn, key)
                answer = _judge(held, fingerprint, token)
                if isinstance(answer, keys.Fresh):
                    conn.execute(_TAKE, (key, fingerprint, token, answer.run, *_until(lease)))
                elif isinstance(answer, keys.InProgress) and held and held.is_too_far:
                    # The clock was set back, so the lease would end too late. Let it end one lease from now. A living
                    # holder renews it before that. If the holder is dead, the key becomes free.
                    answer = keys.InProgress(held.lease / 1e6)
                    conn.execute(_RENEW, (*_until(answer.retry_after), key, held.token))
            return answer

    def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        with self._lent() as conn, _writing(conn, "NORMAL"):
            return conn.execute(_RENEW, (*_until(lease), key, token)).rowcount > 0

    def finish(self, key: bytes, token: bytes, response: keys.StoredResponse, ttl: float) -> bool:
        kept = keys.encode(response)
        with self._lent() as conn, _writing(conn, "FULL"):
            return conn.execute(_FINISH, (kept, _after(ttl), key, token)).rowcount > 0

    def release(self, key: bytes, token: bytes) -> None:
        with self._lent() as conn, _writing(conn, "NORMAL"):
            conn.execute(_RELEASE, (key, token))

    def clean(self, limit: int) -> int:
        with self._lent() as conn, _writing(conn, "NORMAL"):
            return conn.execute(_CLEAN, (_after(0), limit)).rowcount

    def close(self) -> None:
        """Close the file. The next call of a method opens it again."""
        own = self._own()
        with own.lock:
            _drop(own)

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        own = self._own()
        if not own.lock.acquire(timeout=self._timeout):
            raise _busy()
        try:
            if own.conn is None:
                own.conn = _open(self._path, self._timeout)
            yield own.conn
        except sqlite3.Error as error:
            if not _is_busy(error):
                _drop(own)  # the file may have been replaced or restored: the next call opens it again
            raise keys.KeyStoreUnavailable(f"the SQLite file of keys is not available now: {error}") from error
        except OSError as error:
            raise keys.KeyStoreUnavailable(f"the SQLite file of keys cannot be made: {error.strerror}") from error
        finally:
            own.lock.release()

    def _own(self) -> _Own:
        """Return the connection of this process.

        A forked child does not use or close the connection of its parent, because closing it would release the
        parent's locks.
        """
        return self._by_process.setdefault(os.getpid(), _Own())


class AsyncSqliteKeys:
    """`SqliteKeys` in a thread, so that the event loop does not wait. The thread runs the calls in their order."""

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 5.0) -> None:
        self._keys = SqliteKeys(path, timeout=timeout)
        self._timeout = timeout
        self._by_process: dict[int, ThreadPoolExecutor] = {}

    async def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> keys.Answer:
        return await self._run(lambda: self._keys.begin(key, fingerprint, token=token, lease=lease))

    async def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        return await self._run(lambda: self._keys.renew(key, token, lease))

    async def finish(self, key: bytes, token: bytes, response: keys.StoredResponse, ttl: float) -> bool:
        return await self._run(lambda: self._keys.finish(key, token, response, ttl))

    async def release(self, key: bytes, token: bytes) -> None:
        await self._run(lambda: self._keys.release(key, token))

    async def clean(self, limit: int) -> int:
        return await self._run(lambda: self._keys.clean(limit))

    async def aclose(self) -> None:
        """Close the file and end the thread. No method may be called after this."""
        await asyncio.wrap_future(self._thread().submit(self._keys.close))
        self._thread().shutdown(wait=False)

    async def _run(self, method: Callable[[], T]) -> T:
        give_up = clock.monotonic() + self._timeout + _MARGIN

        def call() -> T:
            if clock.monotonic() > give_up:
                raise _busy()  # earlier calls have waited too long for a locked file
            return method()

        return await asyncio.wrap_future(self._thread().submit(call))

    def _thread(self) -> ThreadPoolExecutor:
        """Return the executor of this process. It has one thread.

        A forked child has none of its parent's threads. With the parent's executor it would wait forever.
        """
        found = self._by_process.get(os.getpid())
        if found is None:
            made = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hookline-keys")
            found = self._by_process.setdefault(os.getpid(), made)
        return found


# ── the state of a key ────────────────────────────────────────────────────────────────────────────────────────────


def _judge(held: _Held | None, fingerprint: bytes, token: bytes) -> keys.Answer:
    if held is None:
        return keys.Fresh()
    if held.fingerprint != fingerprint:
        return keys.Mismatch()
    if held.response is not None:
        return keys.Replay(keys.decode(held.response))
    if held.token == token:
        return keys.Fresh(held.runs)
    left = held.lease_until - _after(0)
    return keys.InProgress(left / 1e6) if left > 0 else keys.Fresh(held.runs + 1)


def _read(conn: sqlite3.Connection, key: bytes) -> _Held | None:
    row = conn.execute(_READ, (key, _after(0))).fetchone()
    return None if row is None else _Held(*row)


def _until(lease: float) -> tuple[int, int, int]:
    """Return the columns `lease_until`, `expires_at` and `lease` of a lease that begins now."""
    return _after(lease), _after(lease + keys.ABANDONED), round(lease * 1e6)


def _after(seconds: float) -> int:
    return clock.to_micros(clock.wall()) + round(seconds * 1e6)


# ── the file ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _checked(path: str | os.PathLike[str]) -> Path:
    name = os.fspath(path)
    if not name or "\0" in name or name.startswith((":memory:", "file:")):
        raise InvalidInput("the keys must outlive the process: give the path of a file")
    found = Path(name).absolute()
    if not found.parent.is_dir():
        raise InvalidInput(f"the directory of the SQLite file of keys does not exist: {found.parent}")
    return found


def _open(path: Path, timeout: float) -> sqlite3.Connection:
    """Open the file, or create it. Only the owner may read a new file, because it contains responses. SQLite gives the
    WAL the same permissions as the file."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    conn = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        _retry_while_busy(lambda: _set_up(conn), timeout)
    except BaseException:
        conn.close()
        raise
    return conn


def _retry_while_busy(step: Callable[[], None], timeout: float) -> None:
    """Run `step`. While the file is locked, try again for up to `timeout` seconds.

    While one process switches a new file to WAL, SQLite ignores the busy timeout of other connections.
    """
    give_up = clock.monotonic() + timeout
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or clock.monotonic() > give_up:
                raise
            time.sleep(0.01)


def _set_up(conn: sqlite3.Connection) -> None:
    if conn.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        conn.execute("PRAGMA journal_mode = WAL")
    conn.execute(_TABLE)
    conn.execute(_INDEX)
    if not _has_lease(conn):
        with _writing(conn, "NORMAL"):
            if not _has_lease(conn):
                conn.execute(_ADD_LEASE)


def _has_lease(conn: sqlite3.Connection) -> bool:
    return any(name == "lease" for _, name, *_ in conn.execute("PRAGMA table_info(hookline_idempotency)"))


@contextmanager
def _writing(conn: sqlite3.Connection, synchronous: str) -> Iterator[None]:
    """Run a transaction that takes the write lock first. A transaction that begins with a read cannot always get the
    write lock later."""
    conn.execute(f"PRAGMA synchronous = {synchronous}")
    conn.execute("BEGIN IMMEDIATE")
    with conn:  # commits, or rolls back after an error
        yield


def _drop(own: _Own) -> None:
    conn, own.conn = own.conn, None
    if conn is not None:
        conn.close()


def _busy() -> keys.KeyStoreUnavailable:
    return keys.KeyStoreUnavailable("the SQLite file of keys is not available now: other calls keep it busy")


def _is_busy(error: sqlite3.Error) -> bool:
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in _BUSY
