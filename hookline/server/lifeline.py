"""The socket between a supervisor and a worker process. It is the standard input of the process.

By this socket each of the two notices when the other has ended or is stuck.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator

import structlog

log = structlog.get_logger(__name__)

STDIN = 0
BEAT = 1.0  # seconds between two heartbeats of a process
CHUNK = 4096


# ── the supervisor's end ──────────────────────────────────────────────────────────────────────────────────────────


async def wait_until_silent(connection: socket.socket, beats: int) -> None:
    """Return when that many heartbeats in a row are missing, after the first one. The first one may take long.

    The supervisor counts its own rounds, not seconds of a clock. While the machine is suspended or the supervisor is stuck, no
    round passes. Heartbeats that were sent meanwhile are still in the socket.
    """
    begun, missed = False, 0
    while missed < beats:
        await asyncio.sleep(BEAT)
        if _has_heartbeat(connection):
            begun, missed = True, 0
        elif begun:
            missed += 1


def _has_heartbeat(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(CHUNK, socket.MSG_DONTWAIT))
    except OSError:  # no heartbeat; or the process has ended, which the supervisor notices by other means
        return False


# ── the process's end ─────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def tied(stop: asyncio.Event) -> AsyncIterator[None]:
    """While the block runs, send heartbeats from the event loop, and set `stop` when the supervisor has ended."""
    with _stop_with_supervisor(stop):
        beating = asyncio.create_task(_beat())
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.wait({beating})


async def _beat() -> None:
    if not stat.S_ISSOCK(os.fstat(STDIN).st_mode):
        return  # a pipe from the supervisor of an earlier release, which expects no heartbeats
    with socket.socket(fileno=os.dup(STDIN)) as connection:
        while True:
            with contextlib.suppress(OSError):  # the supervisor is stuck and the socket is full; or it has ended
                connection.send(b".", socket.MSG_DONTWAIT)
            await asyncio.sleep(BEAT)


@contextlib.contextmanager
def _stop_with_supervisor(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def on_readable() -> None:
        if _ended():
            loop.remove_reader(STDIN)
            stop.set()  # before the log line, because the reader of the log may have ended too
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
