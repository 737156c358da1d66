"""The outbox in an application's own SQLite file. Hookline only reads the file.

Hookline's database holds the place, which is the last row that was copied. The place is saved in one transaction with
the messages.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import structlog
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from hookline.clock import monotonic, wall
from hookline.config.urls import sqlite_path
from hookline.engine.sources.sqlite_file import Absent, Batch, SqliteFile, TemporarilyUnreadable
from hookline.engine.sources.sqlite_rows import row_of
from hookline.errors import InvalidInput
from hookline.model.outbox import OutboxPlace, RelayReport
from hookline.outbox import marker
from hookline.store import Store

T = TypeVar("T")

log = structlog.get_logger()

# Seconds between two writes of the marker file. It names the last row that the application may delete.
MARK_INTERVAL = 0.25


class SqliteSource:
    """The outbox as one relay sees it.

    Many processes may read the same file, because each moves the place by compare-and-set.
    """

    sampled = False

    def __init__(self, url: str, store: Store) -> None:
        path = sqlite_path(url)
        if path is None:
            raise InvalidInput(f"not the URL of a SQLite file: {url[:80]}")
        self._file = SqliteFile(path)
        self.name = f"sqlite:///{self._file.path}"
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hookline-outbox-file")
        self._more = False
        self._problem: str | None = None  # the problem that was logged last; None: the file can be read
        self._place: OutboxPlace | None = None
        # The place that this process last wrote to the marker file. UNSET: it has not written the marker yet.
        self._marked: OutboxPlace | UnsetType | None = UNSET
        self._marked_at = 0.0
        self._marker_failed = False  # a failed write of the marker file was logged

    async def move(self, limit: int) -> RelayReport:
        self._more = False
        self._place = place = await self._store.pipeline.place(self.name)
        if self._marked is UNSET:
            await self._mark()
        try:
            batch = await self._read(place, limit)
        except TemporarilyUnreadable:
            report = RelayReport(more=True)
        else:
            # `batch` is None if the file or the table is missing. If rows were copied from this outbox before (`place`
            # is set), the outbox may be missing only for a moment, and may have new rows when it is back.
            absent = RelayReport(more=place is not None)
            report = absent if batch is None else await self._take(batch, place)
        if monotonic() >= self._marked_at + MARK_INTERVAL:
            await self._mark()
        return report

    async def _take(self, batch: Batch, place: OutboxPlace | None) -> RelayReport:
        self._more = batch.more
        if batch.end is None:
            return RelayReport()
        now = wall()
        rows = [row_of(raw, now) for raw in batch.rows]
        report = await self._store.pipeline.take(rows, source=self.name, place=batch.end, after=place)
        if report is None:  # another process has moved the place, so read again from there
            self._more = True
            return RelayReport(more=True)
        self._place = batch.end
        return replace(report, more=batch.more)

    async def wait(self, timeout: float) -> None:
        if self._more:
            return
        cancelled = threading.Event()
        try:
            await self._in_thread(partial(self._file.await_change, timeout, cancelled))
        finally:
            cancelled.set()

    async def close(self) -> None:
        if self._marked is not UNSET:
            await self._mark()
        await asyncio.to_thread(self._thread.shutdown)

    async def _read(self, place: OutboxPlace | None, limit: int) -> Batch | None:
        """Read a batch. Return None if the file or the table does not exist."""
        try:
            batch = await self._in_thread(partial(self._file.read, place, limit))
        except Absent as absent:
            self._log_problem(str(absent))
            return None
        self._log_problem(None)
        return batch

    def _log_problem(self, problem: str | None) -> None:
        """Log a change: that the file cannot be read, or that it can be read again."""
        if problem != self._problem:
            self._problem = problem
            if problem is None:
                log.info("outbox_back", outbox=self.name)
            else:
                log.warning("outbox_away", outbox=self.name, error=problem)

    async def _mark(self) -> None:
        """Write the place to the marker file. The application may delete rows up to this place, because Hookline's
        database has them.

        An existing marker file may name another place, which an earlier database of Hookline wrote. So `move` writes
        the file before its first read.
        """
        if self._place == self._marked:
            return
        self._marked, self._marked_at = self._place, monotonic()
        try:
            await self._in_thread(partial(self._write_marker, self._place))
        except OSError as error:
            if not self._marker_failed:
                effect = "relayed rows stay in the file until you run `hookline outbox prune`"
                log.warning("outbox_not_marked", outbox=self.name, error=str(error), effect=effect)
            self._marker_failed = True

    def _write_marker(self, place: OutboxPlace | None) -> None:
        if place is None:
            marker.remove(self._file.path)
        elif marker.read(self._file.path) != place:
            marker.write(self._file.path, place)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
