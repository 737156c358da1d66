"""Several worker processes under one: started, restarted when they die or stand still, stopped together."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import structlog

from hookline import clock
from hookline.errors import ConfigError
from hookline.observe.process_reports import ProcessReports
from hookline.server import lifeline

log = structlog.get_logger(__name__)

WORKER = (sys.executable, "-P", "-m", "hookline.cli", "worker", "--supervised")
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before a dead one is started again; doubles while it keeps dying
STEADY = 60.0  # one that lived this long starts anew at the first pause
PATIENCE = 60  # beats in a row without a sign of life: its event loop stands still, and it is replaced
KILL_MARGIN = 10.0  # beyond the grace, to close what is open
REFUSED_CONFIG = 2  # the exit code that no restart will mend


class Supervisor:
    def __init__(
        self,
        processes: int,
        *,
        grace: float,
        command: Sequence[str] = WORKER,
        patience: int = PATIENCE,
        fleet: ProcessReports | None = None,
    ) -> None:
        self._processes = processes
        self._grace = grace
        self._command = command
        self._patience = patience
        self._fleet = fleet  # where each life is told of, for metrics

    async def run(self, stop: asyncio.Event) -> None:
        """Until the stop; returns once all of them have ended."""
        async with asyncio.TaskGroup() as children:
            for number in range(self._processes):
                children.create_task(self._keep(number, stop))

    async def _keep(self, number: int, stop: asyncio.Event) -> None:
        pause = FIRST_PAUSE
        while not stop.is_set():
            born = clock.monotonic()
            with self._told() as report:
                code = await self._live(stop, report)
            if stop.is_set():
                return
            if code == REFUSED_CONFIG:
                raise ConfigError("a worker process refused its configuration; its own line says why")
            pause = FIRST_PAUSE if clock.monotonic() - born > STEADY else min(pause * 2, LONGEST_PAUSE)
            log.error("worker_process_died", number=number, exit_code=code, restart_in=pause)
            await _sleep(stop, pause)

    @contextmanager
    def _told(self) -> Iterator[tuple[str, ...]]:
        """What a process is told of where to write down what it does; its last word is kept."""
        if self._fleet is None:
            yield ()
            return
        path = self._fleet.born()
        try:
            yield ("--report", str(path))
        finally:
            self._fleet.died(path)

    async def _live(self, stop: asyncio.Event, report: Sequence[str]) -> int:
        """One life of one process; its exit code."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                # Standard output is the answer of the one command that was started; its workers' lines are not part of it.
                child = await asyncio.create_subprocess_exec(
                    *self._command, *report, stdin=theirs.fileno(), stdout=asyncio.subprocess.DEVNULL
                )
            return await self._watch(child, ours, stop)

    async def _watch(self, child: asyncio.subprocess.Process, line: socket.socket, stop: asyncio.Event) -> int:
        ended, stopped = asyncio.create_task(child.wait()), asyncio.create_task(stop.wait())
        stuck = asyncio.create_task(lifeline.silent(line, self._patience))
        try:
            first, _ = await asyncio.wait({ended, stopped, stuck}, return_when=asyncio.FIRST_COMPLETED)
            if first == {stuck}:
                await self._replace(child, ended)
        finally:  # also when a sibling's failure cancels us: no process is left behind
            stopped.cancel()
            stuck.cancel()
            if not ended.done():
                await self._end(child, ended)
        return ended.result()

    async def _replace(self, child: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        """It can finish nothing any more. What it holds is made again once its leases run out."""
        with suppress(ProcessLookupError):
            child.kill()  # before the line: whoever stands still may do so for want of a reader of standard error
        log.error("worker_process_stuck", pid=child.pid, missed_beats=self._patience)
        await ended

    async def _end(self, child: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        child.terminate()
        await asyncio.wait({ended}, timeout=self._grace + KILL_MARGIN)
        if not ended.done():
            log.error("worker_process_killed", pid=child.pid)
            child.kill()
            await ended


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
