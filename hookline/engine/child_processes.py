"""Starts child processes that parse untrusted data. Each has a socket as its standard input, and no secrets."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
from collections.abc import Sequence

BUFFER = 1 << 20

# The environment variables that a child inherits. Python needs some of them to start. Others say where this machine
# keeps certificates and host names.
_INHERITED = frozenset({
    "HOME", "HOSTALIASES", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD", "LOCALDOMAIN", "OPENSSL_CONF", "OPENSSL_MODULES", "PATH",
    "RES_OPTIONS", "SSL_CERT_DIR", "SSL_CERT_FILE", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ", "VIRTUAL_ENV",
})  # fmt: skip
_INHERITED_PREFIXES = ("DYLD_", "LC_", "MALLOC_", "PYTHON", "__PYVENV")


def max_files() -> int:
    """Return how many files a process may open after it raised its limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def raised_file_limit(wanted: int) -> int:
    """Raise the limit of open files to `wanted`, or as far as the system allows. Return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # if the system refuses, the old limit stays
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


def spawn(command: Sequence[str], *, inherited: Sequence[int] = ()) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a process. Return the parent's end of the socket that is the child's standard input, and the process.

    The child also gets the descriptors in `inherited`, under the same numbers.
    """
    parent_end, child_end = socket.socketpair()
    try:
        with child_end:
            for end in (parent_end, child_end):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            return parent_end, subprocess.Popen(  # noqa: S603
                command,
                stdin=child_end.fileno(),
                stdout=subprocess.DEVNULL,
                env=_environment(),
                pass_fds=inherited,
            )
    except OSError:
        parent_end.close()
        raise


def _environment() -> dict[str, str]:
    """Return the variables that a child inherits. No other variable is passed on, because it may contain a secret."""
    return {
        name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
