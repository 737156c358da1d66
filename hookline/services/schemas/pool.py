"""The processes that check what may take long, as the event loop sees them.

The library holds the interpreter while it works: in a thread, it would stop every other request all the same. Apart, it stops
nobody, and can be stopped. Tenants take turns: whoever has many jobs waits behind one of everybody else's.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from hookline.engine.child_processes import spawn
from hookline.engine.frames import LENGTH, frame
from hookline.errors import Busy
from hookline.services.schemas.child import Answer, Job, Order, decode_answer

log = structlog.get_logger(__name__)

COMMAND = (sys.executable, "-P", "-m", "hookline.services.schemas.child")
PROCESSES = 2
SECONDS = 1.0  # of the processor's time that one request may take
PATIENCE = 10.0  # seconds of the clock, with all that waits before it
MAX_WAITING = 1024
MAX_OF_ONE = 256  # of one tenant: most jobs take a millisecond, and its others wait behind those of everybody else

# It has killed itself: for its time, or because the library could get no memory, or no more stack.
_ITS_OWN = frozenset({-signal.SIGPROF, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS})
_BUSY = "too much is being validated at this moment; try again in a moment"


class TooCostly(Exception):
    """The job has used up its time."""


class Child:
    """One process, for one job at a time; started when there is one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, order: Order) -> Answer:
        """Whatever happens on the way, the next order finds a process that is at rest, or none."""
        try:
            return await self._ask(order)
        except (OSError, EOFError) as error:
            code = await self.end()
            if code in _ITS_OWN:
                raise TooCostly from None
            log.error("validator_died", exit_code=code, error=str(error))
            raise Busy(_BUSY) from None
        except BaseException:
            await self.end()
            raise

    async def _ask(self, order: Order) -> Answer:
        reader, writer = self._streams or await self._start()
        writer.write(frame(order))
        await writer.drain()
        size = int.from_bytes(await reader.readexactly(LENGTH), "little")
        return decode_answer(await reader.readexactly(size))

    async def _start(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ours, self._process = spawn(COMMAND)
        try:
            self._streams = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        return self._streams

    async def end(self) -> int | None:
        """Its exit code. One that has ended by itself keeps its own."""
        process, streams, self._process, self._streams = self._process, self._streams, None, None
        if streams is not None:
            streams[1].transport.abort()
        if process is None:
            return None
        process.kill()
        return await asyncio.shield(asyncio.to_thread(process.wait))


class _Tenant:
    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.waiting = 0


class Pool:
    """One per process."""

    def __init__(self, processes: int = PROCESSES) -> None:
        self._children = [Child() for _ in range(processes)]
        self._free = asyncio.Semaphore(processes)
        self._idle = list(self._children)
        self._tenants: dict[str, _Tenant] = {}
        self._waiting = 0

    async def run(self, tenant: str, job: Job, seconds: float) -> Answer:
        """`TooCostly` if it takes longer than that of the processor's time; `Busy` if nobody has that time now."""
        if seconds <= 0:
            raise TooCostly
        try:
            async with asyncio.timeout(PATIENCE), self._turn(tenant), self._free:
                child = self._idle.pop()
                try:
                    return await child.ask(Order(job, seconds))
                finally:
                    self._idle.append(child)
        except TimeoutError:
            raise Busy(_BUSY) from None

    @asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[None]:
        """One of a tenant's at a time: `_free` goes by who came first, and so from one tenant to the next."""
        tenant = self._tenants.setdefault(name, _Tenant())
        if tenant.waiting >= MAX_OF_ONE or self._waiting >= MAX_WAITING:
            raise Busy(_BUSY)
        tenant.waiting += 1
        self._waiting += 1
        try:
            async with tenant.turn:
                yield
        finally:
            tenant.waiting -= 1
            self._waiting -= 1
            if not tenant.waiting:
                del self._tenants[name]

    async def close(self) -> None:
        for child in self._children:
            await child.end()
