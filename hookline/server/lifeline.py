"""The line between a supervisor and one of its processes, which is that one's standard input: each notices by it what becomes of
the other, however that happened."""

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
BEAT = 1.0  # seconds between two signs that a process gives
CHUNK = 4096


# ── the supervisor's end ──────────────────────────────────────────────────────────────────────────────────────────


async def silent(line: socket.socket, beats: int) -> None:
    """Returns once that many beats in a row brought no sign, after a first one, which may take long where many start at once.

    They are counted by our own turns, not by a clock: while the machine was suspended or starved, or we stood still, nobody could
    give one. What was given meanwhile is still in the line.
    """
    begun, missed = False, 0
    while missed < beats:
        await asyncio.sleep(BEAT)
        if _heard(line):
            begun, missed = True, 0
        elif begun:
            missed += 1


def _heard(line: socket.socket) -> bool:
    try:
        return bool(line.recv(CHUNK, socket.MSG_DONTWAIT))
    except OSError:  # nothing; or it has ended, which is noticed elsewhere
        return False


# ── the process's end ─────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def tied(stop: asyncio.Event) -> AsyncIterator[None]:
    """While the block runs: signs that our event loop turns, and the stop once the supervisor is gone."""
    with _stop_with_supervisor(stop):
        beating = asyncio.create_task(_beat())
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.wait({beating})


async def _beat() -> None:
    if not stat.S_ISSOCK(os.fstat(STDIN).st_mode):
        return  # a pipe, of a supervisor of the release before, which waits for no signs
    with socket.socket(fileno=os.dup(STDIN)) as line:
        while True:
            with contextlib.suppress(OSError):  # it stands still, and the line is full; or it is gone
                line.send(b".", socket.MSG_DONTWAIT)
            await asyncio.sleep(BEAT)


@contextlib.contextmanager
def _stop_with_supervisor(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def heard() -> None:
        if _ended():
            loop.remove_reader(STDIN)
            stop.set()  # first: whoever read our lines may be gone too
            with contextlib.suppress(OSError, ValueError):
                log.warning("supervisor_gone")

    loop.add_reader(STDIN, heard)
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
