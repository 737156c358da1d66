"""An outbox in an application's own SQLite file. It is only read; how far is kept in Hookline's database, with the messages."""

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

from hookline.clock import monotonic
from hookline.config.urls import sqlite_path
from hookline.engine.sources.sqlite_file import Absent, Batch, NotNow, SqliteFile
from hookline.engine.sources.sqlite_rows import row_of
from hookline.errors import InvalidInput
from hookline.model import OutboxPlace, RelayReport
from hookline.outbox import marker
from hookline.store.protocols import Store

T = TypeVar("T")

log = structlog.get_logger()

MARK = 0.25  # seconds between two writes of the marker


class SqliteSource:
    """Any number of processes may read the same file: the place is moved by compare-and-set."""

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
        self._said: str | None = None  # why it waits
        self._place: OutboxPlace | None = None
        self._marked: OutboxPlace | UnsetType | None = UNSET  # unknown before the first move
        self._marked_at = 0.0
        self._unmarked = False  # and said so

    async def move(self, limit: int) -> RelayReport:
        self._more = False
        self._place = place = await self._store.place(self.name)
        if self._marked is UNSET:
            await self._mark()
        try:
            batch = await self._read(place, limit)
        except NotNow:
            report = RelayReport(more=True)
        else:
            gone = RelayReport(more=place is not None)  # one that was never there is behind with nothing
            report = gone if batch is None else await self._take(batch, place)
        if monotonic() >= self._marked_at + MARK:
            await self._mark()
        return report

    async def _take(self, batch: Batch, place: OutboxPlace | None) -> RelayReport:
        self._more = batch.more
        if batch.end is None:
            return RelayReport()
        rows = [row_of(raw) for raw in batch.rows]
        report = await self._store.take(rows, source=self.name, place=batch.end, after=place)
        if report is None:  # another process was quicker: look again from where it came to
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
        """None: there is no such thing."""
        try:
            batch = await self._in_thread(partial(self._file.read, place, limit))
        except Absent as absent:
            self._say(str(absent))
            return None
        self._say(None)
        return batch

    def _say(self, reason: str | None) -> None:
        if reason != self._said:
            self._said = reason
            if reason is None:
                log.info("outbox_back", outbox=self.name)
            else:
                log.warning("outbox_away", outbox=self.name, error=reason)

    async def _mark(self) -> None:
        """Tell the application how far it may delete: only what is committed here. A marker that says otherwise at the start
        is from another life of Hookline's database, and goes before the first read."""
        if self._place == self._marked:
            return
        self._marked, self._marked_at = self._place, monotonic()
        try:
            await self._in_thread(partial(self._write_marker, self._place))
        except OSError as error:
            self._say_unmarked(error)

    def _write_marker(self, place: OutboxPlace | None) -> None:
        if place is None:
            marker.remove(self._file.path)
        elif marker.read(self._file.path) != place:
            marker.write(self._file.path, place)

    def _say_unmarked(self, error: OSError) -> None:
        if not self._unmarked:
            self._unmarked = True
            log.warning(
                "outbox_not_marked",
                outbox=self.name,
                error=str(error),
                effect="what has been relayed stays in the file until `hookline outbox prune`",
            )

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
