"""Writes log lines to standard error without ever blocking for long, even if the pipe is full or its reader has
stopped."""

from __future__ import annotations

import os
import select
import stat
import sys

import structlog

from hookline import clock

log = structlog.get_logger(__name__)

ATOMIC = 4096  # bytes; output of other processes may be mixed into a longer write to a pipe
# Maximum bytes of one write to a file. It may be longer than `ATOMIC`, because output of other processes is never mixed
# into a write that appends to a file.
WHOLE = 1 << 20
PATIENCE = 1.0  # seconds to wait until the pipe has room; after that, lines are dropped until the pipe has room
SHARE = 0.1  # largest part of the time that may be spent waiting for a slow reader


class StderrWriter:
    def __init__(self) -> None:
        self._lost = 0  # lines dropped since the reader stopped
        # Maximum seconds that the next write waits for room in the pipe. Each wait lowers this value by its duration.
        # The time between two waits, multiplied by `SHARE`, is added to the value, up to `PATIENCE`.
        self._patience = PATIENCE
        self._checked_at = clock.monotonic()

    def write(self, lines: bytes) -> None:
        """Write lines. Never raise an error, even if the reader is gone or the disk is full."""
        try:
            sys.stderr.flush()  # write Python's buffered output first, because the lines bypass its buffer
            number = sys.stderr.fileno()
            if self._has_room(number):
                self._report_lost()
                self._write(number, lines)
            else:
                self._lost += lines.count(b"\n")
        except (OSError, ValueError):
            pass

    def _write(self, number: int, lines: bytes) -> None:
        """Write whole lines at a time, in writes so short that several processes can share a pipe."""
        limit, start = longest_write(), 0
        while start < len(lines) and self._has_room(number):
            end = lines.rfind(b"\n", start, start + limit) + 1 or start + limit
            start += os.write(number, lines[start:end])
        self._lost += lines.count(b"\n", start)

    def _has_room(self, number: int) -> bool:
        """Return whether a pipe has room for `ATOMIC` bytes, after waiting if necessary. A file always has room."""
        asked = select.poll()
        asked.register(number, select.POLLOUT)
        began = clock.monotonic()
        self._patience = min(PATIENCE, self._patience + SHARE * (began - self._checked_at))
        found = bool(asked.poll(0 if self._lost else self._patience * 1000))
        self._checked_at = clock.monotonic()
        self._patience = max(0.0, self._patience - (self._checked_at - began))
        return found

    def _report_lost(self) -> None:
        if self._lost:
            lost, self._lost = self._lost, 0
            log.warning("log_lines_lost", count=lost)


standard_error = StderrWriter().write


def longest_write() -> int:
    """Return how many bytes can be written to standard error without output of other processes in between."""
    try:
        found = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return ATOMIC
    return WHOLE if stat.S_ISREG(found.st_mode) else ATOMIC
