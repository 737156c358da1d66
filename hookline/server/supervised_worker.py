"""Connects a worker process to the supervisor that started it: heartbeats, reports of counters, and the stop
when the supervisor has ended.

The standard input of the worker is a socket from the supervisor. The worker sends heartbeats through it, so that the
supervisor notices a stuck worker. The worker ends when the socket is closed. This module imports no web server, so
that workers stay small.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path

import structlog

from hookline.observe.process_reports import EVERY, report, write
from hookline.observe.tally import Tally

log = structlog.get_logger(__name__)

STDIN = 0
BEAT = 1.0  # seconds between two heartbeats of a process


@contextlib.asynccontextmanager
async def tied_to_supervisor(stop: asyncio.Event) -> AsyncIterator[None]:
    """During the `with` block, send heartbeats from the event loop, and set `stop` when the supervisor has ended."""
    with _stop_with_supervisor(stop):
        async with _beside(_beat()):
            yield


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run a coroutine in the background during the `with` block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _beat() -> None:
    if not stat.S_ISSOCK(os.fstat(STDIN).st_mode):
        return  # a pipe from the supervisor of an earlier release, which expects no heartbeats
    with socket.socket(fileno=os.dup(STDIN)) as connection:
        while True:
            # OSError: the supervisor is stuck and the socket is full, or the supervisor has ended
            with contextlib.suppress(OSError):
                connection.send(b".", socket.MSG_DONTWAIT)
            await asyncio.sleep(BEAT)


@contextlib.contextmanager
def _stop_with_supervisor(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def on_readable() -> None:
        if _ended():
            loop.remove_reader(STDIN)
            stop.set()  # before the log line, which can fail if the reader of the log has ended too
            with contextlib.suppress(OSError, ValueError):
                log.warning("supervisor_gone")

    loop.add_reader(STDIN, on_readable)
    try:
        yield
    finally:
        loop.remove_reader(STDIN)


def _ended() -> bool:
    try:
        return not os.read(STDIN, 1)
    except BlockingIOError:
        return False
    except OSError:
        return True


# ── reports ───────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def reporting(path: Path | None, tally: Tally) -> AsyncIterator[None]:
    """Write the counters of this process to `path` regularly during the `with` block, and once more at its end."""
    if path is None:
        yield
        return
    try:
        async with _beside(_write_regularly(path, tally)):
            yield
    finally:
        _write(path, tally)


async def _write_regularly(path: Path, tally: Tally) -> None:
    succeeded = True
    while True:
        written = _write(path, tally)
        if not written and succeeded:
            log.warning("metrics_not_told", what="the metrics of the parent process will not include this process")
        succeeded = written
        await asyncio.sleep(EVERY)


def _write(path: Path, tally: Tally) -> bool:
    try:
        write(path, report(tally))
    except OSError:
        return False
    return True
