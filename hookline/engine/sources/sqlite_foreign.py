"""Locks the SQLite file of another user, so that a read creates no files beside it.

A process that opens a WAL-mode file without `-wal` and `-shm` files creates them, even to read. The two files then
belong to our user, and the application can no longer write to its own database. SQLite removes both files when the
last connection closes, and a shared lock prevents the removal. So if the files exist while this module holds the lock,
they still exist when SQLite opens the database.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Bytes that SQLite locks: a waiting writer locks the byte at `_PENDING`, and readers share a lock on the bytes from
# `_SHARED` on.
_PENDING = 0x40000000
_SHARED = _PENDING + 2
_SHARED_SIZE = 510
# Linux only: locks that belong to the descriptor. Locks of the process would mix with SQLite's own.
_SET = getattr(fcntl, "F_OFD_SETLK", None)


def is_foreign(file: Path) -> bool:
    """Return whether the file belongs to another user.

    If this process runs as root, the result is False: SQLite then gives new files to the owner of the database.
    """
    return os.geteuid() not in (0, file.stat().st_uid)


@contextmanager
def shared_lock(file: Path) -> Iterator[bool]:
    """Hold SQLite's shared lock on the file during the `with` block. Yield False if the lock could not be taken,
    because a writer holds or awaits its own lock.

    The caller must close its connections to the file before the block ends. The end of the block closes a descriptor
    of the file, and this drops all locks that SQLite holds on the file in this process.
    """
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _take(fd)
    finally:
        os.close(fd)


def _take(fd: int) -> bool:
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
