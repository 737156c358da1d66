"""Reading the SQLite file of another user, and leaving no file of ours beside it.

Whoever opens a file in WAL mode that has no `-wal` and `-shm`, even to read, makes them, in its own name. If that is not the
application, it can no longer write to its own database. SQLite takes both away when the last connection is closed, which a shared
lock on the file prevents: what is seen beside it under the lock is still there when SQLite looks.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Where SQLite locks: a writer that waits for its turn has the first byte, readers share the others.
_PENDING = 0x40000000
_SHARED = _PENDING + 2
_SHARED_SIZE = 510
_SET = getattr(fcntl, "F_OFD_SETLK", None)  # locks of the descriptor, not of the process, which has SQLite's own; Linux


def is_guest(file: Path) -> bool:
    """Root is none: SQLite gives what it makes as root to the owner of the file."""
    return os.geteuid() not in (0, file.stat().st_uid)


@contextmanager
def shared_lock(file: Path) -> Iterator[bool]:
    """False: a writer is there, or waits. No connection to the file may outlive it: the end takes SQLite's own locks too."""
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _taken(fd)
    finally:
        os.close(fd)


def _taken(fd: int) -> bool:
    try:
        _lock(fd, fcntl.F_RDLCK, _PENDING, 1)
        _lock(fd, fcntl.F_RDLCK, _SHARED, _SHARED_SIZE)
        _lock(fd, fcntl.F_UNLCK, _PENDING, 1)
    except BlockingIOError:
        return False
    return True


def _lock(fd: int, kind: int, start: int, size: int) -> None:
    if _SET is not None:
        fcntl.fcntl(fd, _SET, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, size, 0))
