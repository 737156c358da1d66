"""The base class of the engine's parts: the writer, the readers, and the events that wake sleeping loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from hookline.store.plans.plan import Plan, Shared
from hookline.store.sqlite.database import run
from hookline.store.sqlite.readers import Readers
from hookline.store.sqlite.transaction import READ, Context, Tx
from hookline.store.sqlite.writer import Writer

T = TypeVar("T")
P = ParamSpec("P")

BATCH = 2000  # maximum rows of a long change that one transaction takes


class WakeEvents:
    """Events that wake sleeping loops: one for workers, which wait for deliveries, and one for the relay, which waits
    for outbox rows."""

    def __init__(self) -> None:
        self.work = asyncio.Event()
        self.outbox = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def set(self, *events: asyncio.Event) -> None:
        """Set the events. Any thread may call it."""
        try:
            for event in events:
                self._loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            return  # the event loop is closed, so nothing waits

    def set_all(self) -> None:
        self.set(self.work, self.outbox)


class Base(Shared):
    _reading = READ

    def __init__(self, writer: Writer, readers: Readers, context: Context, events: WakeEvents) -> None:
        self._writer = writer
        self._readers = readers
        self._context = context
        self._vault = context.vault
        self._options = context.options
        self._events = events
        self._work_event = events.work
        self.task_added = asyncio.Event()

    async def _write(self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._writer.write(lambda tx: work(tx, *args, **kwargs))

    async def _read(self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._readers.read(lambda tx: work(tx, *args, **kwargs))

    async def _run_read(self, plan: Callable[[], Plan[T]], *, indexed: bool = False) -> T:  # noqa: ARG002 (PostgreSQL's)
        return await self._readers.read(lambda tx: run(tx, plan()))

    async def _run_change(self, plan: Callable[[], Plan[T]], *, indexed: bool = False) -> T:  # noqa: ARG002 (PostgreSQL's)
        done, announced = await self._writer.write(lambda tx: (run(tx, plan()), tx.announced))
        if announced:
            self._work_event.set()
        return done


async def wait_for(event: asyncio.Event, timeout: float) -> None:
    """Wait until the event is set or the timeout ends, then clear it."""
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError:
        return
    event.clear()
