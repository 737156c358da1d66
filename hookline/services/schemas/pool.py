"""A pool of processes for validation jobs that may take a long time.

The validation library holds the interpreter lock while it works, so a thread would block all other requests. A
separate process blocks nothing and can be killed. Tenants take turns: at most one job of each tenant runs or
waits for a process. The tenant's other jobs wait behind it.
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
SECONDS = 1.0  # maximum CPU time for all validation jobs of one request
PATIENCE = 10.0  # maximum seconds for one job, including its time in the queue
MAX_WAITING = 1024
MAX_OF_ONE = 256  # maximum number of waiting jobs of one tenant; most jobs take a millisecond

# Exit codes of a validator process whose job used too much CPU time, memory or stack.
_ENDED_BY_JOB = frozenset({-signal.SIGPROF, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS})
_BUSY = "too much is being validated at this moment; try again in a moment"


class TooCostly(Exception):
    """The job used too much CPU time, memory or stack."""


class Child:
    """One process that does one job at a time. The first job starts it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, order: Order) -> Answer:
        """Run one job. After an error the process is killed, and the next job starts a new one."""
        try:
            return await self._ask(order)
        except (OSError, EOFError) as error:
            code = await self.end()
            if code in _ENDED_BY_JOB:
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
        """End the process and return its exit code. A process that has already ended keeps its own code."""
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
    """The validation processes. Each server process has one pool."""

    def __init__(self, processes: int = PROCESSES) -> None:
        self._children = [Child() for _ in range(processes)]
        self._free = asyncio.Semaphore(processes)
        self._idle = list(self._children)
        self._tenants: dict[str, _Tenant] = {}
        self._waiting = 0

    async def run(self, tenant: str, job: Job, seconds: float) -> Answer:
        """Run a job. Raises `TooCostly` if the job uses more than `seconds` of CPU time, or too much memory or stack.
        Raises `Busy` if too many jobs wait, if the job does not end within `PATIENCE` seconds, or if its process
        dies for another reason."""
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
        """Let only one job of each tenant run or wait for `_free`, which serves jobs in order of arrival. So tenants
        take turns."""
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
