"""Standard error, for lines that must stop nothing: not for want of room, nor for a reader who has stopped reading."""

from __future__ import annotations

import os
import select
import stat
import sys

import structlog

from hookline import clock

log = structlog.get_logger(__name__)

ATOMIC = 4096  # bytes: a longer write to a pipe may be cut in two by another process's
WHOLE = 1 << 20  # to a file, where an appending write of any length is one
PATIENCE = 1.0  # seconds that a reader has to make room; after them lines are passed over until there is some
SHARE = 0.1  # of all time, which is as much as a reader who is slow may have


class StderrWriter:
    def __init__(self) -> None:
        self._lost = 0  # lines, since the reader stopped
        self._patience = PATIENCE  # what is left of it
        self._looked = clock.monotonic()

    def write(self, lines: bytes) -> None:
        """Never raises: nobody may read it any more, or the disk may be full."""
        try:
            sys.stderr.flush()  # what others wrote before comes before
            number = sys.stderr.fileno()
            if self._has_room(number):
                self._tell()
                self._write(number, lines)
            else:
                self._lost += lines.count(b"\n")
        except (OSError, ValueError):
            pass

    def _write(self, number: int, lines: bytes) -> None:
        most = longest_write()
        while lines and self._has_room(number):
            lines = lines[os.write(number, lines[:most]) :]
        self._lost += lines.count(b"\n")

    def _has_room(self, number: int) -> bool:
        """For a piece of `ATOMIC` bytes, if it is a pipe; a file always has."""
        asked = select.poll()
        asked.register(number, select.POLLOUT)
        began = clock.monotonic()
        self._patience = min(PATIENCE, self._patience + SHARE * (began - self._looked))
        found = bool(asked.poll(0 if self._lost else self._patience * 1000))
        self._looked = clock.monotonic()
        self._patience = max(0.0, self._patience - (self._looked - began))
        return found

    def _tell(self) -> None:
        if self._lost:
            lost, self._lost = self._lost, 0
            log.warning("log_lines_lost", count=lost)


standard_error = StderrWriter().write


def longest_write() -> int:
    """Bytes that standard error takes at once, with nobody else's among them."""
    try:
        found = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return ATOMIC
    return WHOLE if stat.S_ISREG(found.st_mode) else ATOMIC
