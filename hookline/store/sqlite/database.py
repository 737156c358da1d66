"""The database file: its writer and readers, the events that wake sleeping loops, and how plans run on it."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from hookline.security.vault import Vault
from hookline.store.options import StoreOptions
from hookline.store.plans.plan import Batch, Bulk, Plan, Run, Step
from hookline.store.rows import Row
from hookline.store.sql import load
from hookline.store.sqlite.clock import to_micros
from hookline.store.sqlite.connect import connect, path_of, prepare
from hookline.store.sqlite.readers import Readers
from hookline.store.sqlite.transaction import READ, Context, Tx, with_any_text
from hookline.store.sqlite.writer import Writer

T = TypeVar("T")
P = ParamSpec("P")

_OPTIONAL = re.compile(r"^.*-- if :([a-z_]+)$", re.MULTILINE)
_MICROSECOND = timedelta(microseconds=1)
# PostgreSQL runs this statement to notify sleeping workers. SQLite sets an event after the commit instead.
_ANNOUNCE = "announce"


class WakeEvents:
    """Events that wake sleeping loops: one for workers, which wait for deliveries, and one for the relay, which waits
    for outbox rows."""

    def __init__(self) -> None:
        self.work = asyncio.Event()
        self.outbox = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def set(self, *events: asyncio.Event) -> None:
        """Set the events. Any thread may call this method."""
        try:
            for event in events:
                self._loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            return  # the event loop is closed, so nothing waits

    def set_all(self) -> None:
        self.set(self.work, self.outbox)


class Database:
    """One database file. All parts of a store share it."""

    reading = READ

    def __init__(self, conn: sqlite3.Connection, path: Path, vault: Vault, options: StoreOptions) -> None:
        self.vault = vault
        self.options = options
        self.context = Context(load("sqlite"), vault, options)
        self.events = WakeEvents()
        self._writer = Writer(conn, path, self.context, self.events.set_all)
        self._readers = Readers(path, self.context)

    @classmethod
    async def open(cls, url: str, vault: Vault, options: StoreOptions) -> Database:
        path = path_of(url)
        await asyncio.to_thread(prepare, path)
        conn = await asyncio.to_thread(connect, path, writes=True)
        return cls(conn, path, vault, options)

    async def write(self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a transaction of the writer and return when it is durable."""
        return await self._writer.write(lambda tx: work(tx, *args, **kwargs))

    async def read(self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` on one snapshot in a reader's thread."""
        return await self._readers.read(lambda tx: work(tx, *args, **kwargs))

    async def run_plan(self, plan: Callable[[], Plan[T]], run: Run) -> T:
        if run not in (Run.CHANGE, Run.SEARCH_AND_CHANGE):
            return await self.read(lambda tx: with_any_text(tx.conn, "replace", lambda: run_steps(tx, plan())))
        done, announced = await self.write(lambda tx: (run_steps(tx, plan()), tx.announced))
        if announced:
            self.events.work.set()
        return done

    async def close(self) -> None:
        await self._readers.close()
        await self._writer.close()


async def wait_for(event: asyncio.Event, timeout: float) -> None:
    """Wait until the event is set or the timeout ends, then clear it."""
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError:
        return
    event.clear()


def run_steps(tx: Tx, plan: Plan[T]) -> T:
    """Run every step of the plan in this transaction and return its result."""
    try:
        step = next(plan)
        while True:
            step = plan.send(_rows(tx, step))
    except StopIteration as end:
        result: T = end.value
        return result


def _rows(tx: Tx, step: Step | Batch) -> list[Row]:
    if step.name == _ANNOUNCE:
        tx.announced = True
        return []
    if step.name in tx.context.catalogue_writes:
        tx.forget_plans()
    if isinstance(step, Bulk):
        return [row for values in step.values for row in _rows(tx, Step(step.name, **values))]
    if isinstance(step, Batch):
        tx.many(step.name, [_bound(tx, values) for values in step.values])
        return []
    text = chosen(tx.sql[step.name], step.values)
    found: list[Any] = tx.conn.execute(text, _bound(tx, step.values)).fetchall()
    return found


def chosen(text: str, values: Mapping[str, Any]) -> str:
    """Remove each line that ends in `-- if :name` if the value of `name` is None.

    SQLite plans a statement before it knows the values. So it would use no index for
    `:name IS NULL OR column = :name`.
    """
    if "-- if :" not in text:
        return text
    return _OPTIONAL.sub(lambda line: "" if values[line[1]] is None else line[0], text)


def _bound(tx: Tx, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"now": tx.now} | {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return to_micros(value)
        case timedelta():
            return value // _MICROSECOND
        case list() | tuple():
            return msgspec.json.encode(value).decode()
        case _:
            return value
