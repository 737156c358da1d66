"""Tells the worker which requests the sender's process has started, even if that process has died.

Both processes share a file in memory. The file is an array with one element for each request that may be in flight.
Before the sender's process starts a request, it writes the request's number into an element. This costs no system call.
"""

from __future__ import annotations

import os
from array import array
from mmap import mmap
from tempfile import TemporaryFile
from typing import Final

_NUMBER: Final = "Q"  # an element is an unsigned number of 8 bytes; 0: not used yet
_SIZE = 8


def create(elements: int) -> int:
    """Return the descriptor of a new file with this number of elements."""
    descriptor = _open()
    try:
        os.ftruncate(descriptor, elements * _SIZE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _open() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("hookline-started")
    with TemporaryFile() as file:  # for systems other than Linux
        return os.dup(file.fileno())


def elements(descriptor: int) -> memoryview[int]:
    """Return the array in the file, for the sender's process."""
    return memoryview(mmap(descriptor, 0)).cast(_NUMBER)


def numbers(descriptor: int) -> frozenset[int]:
    """Return the numbers of all requests that were in flight when the sender's process ended, and of some requests
    that had finished before."""
    return frozenset(array(_NUMBER, os.pread(descriptor, os.fstat(descriptor).st_size, 0)))
