"""Prepare the standard streams, which the parent process may have closed."""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_ESCAPED = "hookline.escaped"


def prepare() -> None:
    _open_missing()
    codecs.register_error(_ESCAPED, _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ESCAPED)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end a blocking read in a coroutine. The handler of asyncio only cancels the task, and the read goes
    on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _open_missing() -> None:
    """Connect closed standard streams to /dev/null. Otherwise a file or socket that is opened later would get the file
    descriptor of a standard stream, and Hookline would print into it."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(number, True)
    os.close(number)
    for name, mode, at in (("stdin", "r", _STDIN), ("stdout", "w", _STDOUT), ("stderr", "w", _STDERR)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(at, mode, closefd=False))  # noqa: SIM115 - stays open until the process ends


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Escape characters that the encoding of the output does not have, in the style of JSON, so that the command does
    not fail."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end
