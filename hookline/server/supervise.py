"""Runs several worker processes: starts them, restarts those that die or are stuck, and stops them together."""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog
from msgspec import Struct

from hookline import clock
from hookline.config import Config
from hookline.errors import ConfigError
from hookline.observe.process_reports import ProcessReports
from hookline.server import supervised_worker
from hookline.store.outage import pause

log = structlog.get_logger(__name__)

WORKER = (sys.executable, "-P", "-m", "hookline.cli", "worker", "--supervised")
FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0  # seconds until a process that died is restarted; doubles while it keeps dying
STEADY = 60.0  # seconds; if a process ran for longer, the next pause is FIRST_PAUSE again
MAX_MISSED_BEATS = 60  # missing heartbeats in a row after which a process counts as stuck and is replaced
KILL_MARGIN = 10.0  # seconds after the grace period in which a process can close its resources; then it is killed
REFUSED_CONFIG = 2  # the exit code for an invalid configuration; a restart would not help


class Supervisor(Struct, frozen=True):
    processes: int
    grace: float  # seconds in which a process must finish its work after the stop signal
    command: Sequence[str] = WORKER
    max_missed: int = MAX_MISSED_BEATS
    fleet: ProcessReports | None = None  # the reports of the processes, for metrics

    async def run(self, stop: asyncio.Event) -> None:
        """Run the processes until `stop` is set and all of them have ended."""
        async with asyncio.TaskGroup() as children:
            for number in range(self.processes):
                children.create_task(self._keep_running(number, stop))

    async def _keep_running(self, number: int, stop: asyncio.Event) -> None:
        seconds = FIRST_PAUSE
        while not stop.is_set():
            started = clock.monotonic()
            with self._report_option() as report:
                code = await self._run_once(stop, report)
            if stop.is_set():
                return
            if code == REFUSED_CONFIG:
                raise ConfigError("a worker process refused its configuration; its own log line says why")
            seconds = FIRST_PAUSE if clock.monotonic() - started > STEADY else min(seconds * 2, MAX_PAUSE)
            log.error("worker_process_died", number=number, exit_code=code, restart_in=seconds)
            await pause(seconds, stop)

    @contextmanager
    def _report_option(self) -> Iterator[tuple[str, ...]]:
        """Yield the option that names the report file of a process. After the process ends, its last report is
        kept."""
        if self.fleet is None:
            yield ()
            return
        path = self.fleet.born()
        try:
            yield ("--report", str(path))
        finally:
            self.fleet.died(path)

    async def _run_once(self, stop: asyncio.Event, report: Sequence[str]) -> int:
        """Run one process until it ends. Return its exit code."""
        parent_end, child_end = socket.socketpair()
        with parent_end:
            with child_end:
                # Only the command that the user started may write to standard output. Its worker processes may not.
                child = await asyncio.create_subprocess_exec(
                    *self.command, *report, stdin=child_end.fileno(), stdout=asyncio.subprocess.DEVNULL
                )
            return await self._watch(child, parent_end, stop)

    async def _watch(self, child: asyncio.subprocess.Process, connection: socket.socket, stop: asyncio.Event) -> int:
        ended, stopped = asyncio.create_task(child.wait()), asyncio.create_task(stop.wait())
        stuck = asyncio.create_task(wait_until_silent(connection, self.max_missed))
        try:
            first, _ = await asyncio.wait({ended, stopped, stuck}, return_when=asyncio.FIRST_COMPLETED)
            if first == {stuck}:
                await self._replace(child, ended)
        finally:  # also if the failure of another process cancels this task, so that no process is left running
            stopped.cancel()
            stuck.cancel()
            if not ended.done():
                await self._end(child, ended)
        return ended.result()

    async def _replace(self, child: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        """Kill a stuck process, because it cannot finish its work. Its deliveries are retried after their leases
        expire."""
        with suppress(ProcessLookupError):
            # Kill before logging. The supervisor and the child write to the same standard error. If the child is stuck
            # because that pipe is full, the log line would have to wait too.
            child.kill()
        log.error("worker_process_stuck", pid=child.pid, missed_beats=self.max_missed)
        await ended

    async def _end(self, child: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        child.terminate()
        await asyncio.wait({ended}, timeout=self.grace + KILL_MARGIN)
        if not ended.done():
            log.error("worker_process_killed", pid=child.pid)
            child.kill()
            await ended


async def wait_until_silent(connection: socket.socket, beats: int) -> None:
    """Wait for the first heartbeat, however long it takes. Then wait until `beats` heartbeats in a row are missing.

    This counts rounds of its own loop, one per expected heartbeat, not seconds of a clock. While the machine is
    suspended or the supervisor is stuck, the loop does not run and counts nothing. Heartbeats that were sent meanwhile
    are still in the socket.
    """
    begun, missed = False, 0
    while missed < beats:
        await asyncio.sleep(supervised_worker.BEAT)
        if _has_heartbeat(connection):
            begun, missed = True, 0
        elif begun:
            missed += 1


def _has_heartbeat(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(4096, socket.MSG_DONTWAIT))
    except OSError:  # no heartbeat; or the process has ended, which `_watch` notices
        return False


@contextmanager
def gathered_reports(config: Config, processes: int) -> Iterator[ProcessReports | None]:
    """Make a directory in which the child processes write their reports, and yield the `ProcessReports` that reads
    it. Yield None if there are no child processes."""
    if processes == 1:
        yield None
        return
    try:
        directory = tempfile.TemporaryDirectory(prefix="hookline-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ConfigError(f"--processes needs a directory for temporary files (TMPDIR): {error.strerror}") from None
    with directory as path:
        yield ProcessReports(Path(path), event_types=config.metrics_event_types)
