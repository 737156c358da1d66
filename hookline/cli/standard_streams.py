"""The standard streams as commands need them, however they were left to us."""

from __future__ import annotations

import codecs
import io
import os
import sys

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_ESCAPED = "hookline.escaped"


def prepare() -> None:
    _open_missing()
    codecs.register_error(_ESCAPED, _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ESCAPED)


def _open_missing() -> None:
    """Whoever started us may have closed some: a file or a connection would get their number, and what is meant for them."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(number, True)
    os.close(number)
    for name, mode, at in (("stdin", "r", _STDIN), ("stdout", "w", _STDOUT), ("stderr", "w", _STDERR)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(at, mode, closefd=False))  # noqa: SIM115 - as long as the process


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Letters that the output's encoding lacks, as JSON escapes them: a name or a mark must not end a command."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end
