"""The writer thread. Work that is queued together shares one COMMIT and one fsync. A savepoint isolates the errors of
each task. Callers learn of success only after the COMMIT has returned."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from hookline.clock import monotonic
from hookline.errors import StoreUnavailable
from hookline.store.patience import patiently
from hookline.store.sqlite.errors import is_busy, translate
from hookline.store.sqlite.transaction import Context, Tx

T = TypeVar("T")

GROUP = 64  # maximum tasks in one COMMIT
LOCK_SECONDS = 10.0  # maximum seconds to wait while another process holds the write lock
# Seconds between two tries to take the write lock. SQLite's own busy handler waits up to 100 ms between tries. While
# another process writes a lot, that handler would often miss the short times in which the lock is free.
LOCK_POLL = 0.002
IDLE = 0.005  # seconds after which an idle writer checks again for commits of other processes
# After each commit, a busy writer leaves the lock free for this fraction of the commit's duration, but at most 2 ms. In
# this time other processes can take the lock.
YIELD_SHARE = 0.1
WAL_BYTES = 8 << 20  # a writer without queued tasks truncates a WAL that is larger than this
WAL_BYTES_MAX = 64 << 20  # a writer with queued tasks truncates the WAL only if it is larger than this
CHECKPOINT_SECONDS = 1.0


class _Task:
    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Callable[[Tx], Any], future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        if self.future.done():  # the caller was cancelled
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class _Aborted(Exception):
    """SQLite aborted the whole transaction and not only the statement, for example because the disk is full."""


class Writer:
    def __init__(
        self, conn: sqlite3.Connection, path: Path, context: Context, on_foreign_commit: Callable[[], None]
    ) -> None:
        self._conn = conn
        self._path = path
        self._file = path.stat().st_ino
        self._wal = path.with_name(path.name + "-wal")
        self._context = context
        self._on_foreign_commit = on_foreign_commit
        self._queue: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._version = self._data_version()
        self._checkpoint_at = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="hookline-sqlite-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction and return when it is durable."""
        if self._closing:
            raise StoreUnavailable("the store is closed")
        task = _Task(work, self._loop.create_future())
        self._queue.put(task)
        async with patiently():
            result: T = await task.future
        return result

    async def close(self) -> None:
        """Close the writer after it has written all queued work."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    # ── the thread ──

    def _run(self) -> None:
        open_ = True
        while open_:
            group, open_ = self._next_group()
            if not group:
                self._idle()
                continue
            began = monotonic()
            self._commit(group)
            self._tell(group)
            if not self._queue.empty():
                self._cut_wal(WAL_BYTES_MAX)
                time.sleep(min(0.002, (monotonic() - began) * YIELD_SHARE))
        self._conn.close()

    def _next_group(self) -> tuple[list[_Task], bool]:
        """Return the waiting tasks, at most `GROUP`, and whether more may follow. False: the writer was closed, and
        this group is the last."""
        group: list[_Task] = []
        try:
            task = self._queue.get(timeout=IDLE)
            while task is not None:
                group.append(task)
                if len(group) == GROUP:
                    return group, True
                task = self._queue.get_nowait()
        except queue.Empty:
            return group, True
        return group, False

    def _commit(self, group: list[_Task]) -> None:
        try:
            self._check_file()
            self._begin()
            self._notice_others()
            for task in group:
                if not task.future.cancelled():  # the caller gave up before its work began
                    self._step(task)
            self._conn.execute("COMMIT")
        except Exception as error:  # the thread must survive every error
            self._undo()
            cause = error.__cause__ if isinstance(error, _Aborted) else error
            for task in group:
                task.error = translate(cause or error)

    def _check_file(self) -> None:
        """Raise if the file was removed or replaced. SQLite would continue to write to the removed file, and
        acknowledged data would be lost."""
        try:
            same = self._path.stat().st_ino == self._file
        except OSError:
            same = False
        if not same:
            raise StoreUnavailable(f"{self._path} was removed or replaced while it was in use; stop this process")

    def _begin(self) -> None:
        give_up = monotonic() + LOCK_SECONDS
        while True:
            try:
                self._conn.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not is_busy(error) or monotonic() > give_up:
                    raise
                time.sleep(LOCK_POLL)
            else:
                return

    def _step(self, task: _Task) -> None:
        self._conn.execute("SAVEPOINT step")
        try:
            task.result = task.work(Tx(self._conn, self._context))
        except BaseException as error:
            if not self._conn.in_transaction:
                raise _Aborted from error
            self._conn.execute("ROLLBACK TO step")
            self._context.plans.clear()
            task.error = translate(error)
        self._conn.execute("RELEASE step")

    def _undo(self) -> None:
        self._context.plans.clear()
        try:
            if self._conn.in_transaction:
                self._conn.execute("ROLLBACK")
        except sqlite3.Error:
            return  # SQLite has already rolled back

    def _tell(self, group: list[_Task]) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, group)
        except RuntimeError:
            return  # the event loop is closed, so nothing waits

    # ── between transactions ──

    def _idle(self) -> None:
        try:
            self._notice_others()
        except sqlite3.Error:
            return  # the next transaction gets the same error and reports it
        self._cut_wal(WAL_BYTES)

    def _notice_others(self) -> None:
        """Detect commits of other processes. `data_version` changes with commits of other connections, but not with
        commits of this one."""
        version = self._data_version()
        if version != self._version:
            self._version = version
            self._context.plans.clear()
            self._on_foreign_commit()

    def _data_version(self) -> int:
        (version,) = self._conn.execute("PRAGMA data_version").fetchone()
        return int(version)

    def _cut_wal(self, bound: int) -> None:
        """Truncate the WAL if it is larger than `bound` bytes. If readers block this, a later call tries again."""
        if monotonic() < self._checkpoint_at:
            return
        self._checkpoint_at = monotonic() + CHECKPOINT_SECONDS
        try:
            if self._wal.stat().st_size > bound:
                self._conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except (OSError, sqlite3.Error):
            return


def _settle(group: list[_Task]) -> None:
    for task in group:
        task.settle()
