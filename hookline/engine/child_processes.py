"""Processes of our own that read what strangers wrote. Each gets a socket as its standard input, and none of our secrets."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
from collections.abc import Sequence

BUFFER = 1 << 20

# What it is given of our environment: how to start, and where this machine keeps its authorities and names.
_INHERITED = frozenset({
    "HOME", "HOSTALIASES", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD", "LOCALDOMAIN", "OPENSSL_CONF", "OPENSSL_MODULES", "PATH",
    "RES_OPTIONS", "SSL_CERT_DIR", "SSL_CERT_FILE", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ", "VIRTUAL_ENV",
})  # fmt: skip
_INHERITED_PREFIXES = ("DYLD_", "LC_", "MALLOC_", "PYTHON", "__PYVENV")


def raised_file_limit(wanted: int) -> int:
    """So many files this process may open from now on: what was wanted, or as many as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # we do with what there is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


def spawn(command: Sequence[str]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The process, and our end of the socket that is its standard input."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            return ours, subprocess.Popen(  # noqa: S603
                command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=_environment()
            )
    except OSError:
        ours.close()
        raise


def _environment() -> dict[str, str]:
    """Ours without what is ours alone, whatever it is called: it parses what strangers answer."""
    return {
        name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
