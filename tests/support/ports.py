"""Ports for servers that need their port before they listen, and ports on which nothing listens."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hookline.rules.guard import REFUSED_PORTS

LOWEST = 15_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_held: list[socket.socket] = []


def free_port() -> str:
    """Return a port that stays reserved for this process until it ends, whether or not a server uses it.

    The port is below the range from which the kernel assigns ports, so no other program gets it by accident. Other test
    processes see it as taken, because this process holds the UDP port of the same number.
    """
    candidates = [port for port in range(LOWEST, _first_of_the_kernels()) if port not in REFUSED_PORTS]
    for port in random.sample(candidates, len(candidates)):
        if _hold(port) and _nobody_listens(port):
            return str(port)
    raise RuntimeError(f"no free port from {LOWEST} on")


def refused_port() -> int:
    """Return a port that the guard refuses and on which nothing listens. No other test uses these ports."""
    return next(port for port in sorted(REFUSED_PORTS, reverse=True) if _nobody_listens(port))


@contextmanager
def refusing() -> Iterator[str]:
    """Yield an address that refuses connections: the port is bound, but nothing listens on it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


def accepts(port: int | str) -> bool:
    """Return whether a server on loopback accepts connections on the port."""
    try:
        socket.create_connection(("127.0.0.1", int(port)), timeout=10).close()
    except OSError:
        return False
    return True


def _first_of_the_kernels() -> int:
    try:
        first = int(_RANGE.read_text().split()[0])
    except OSError:
        first = 49_152  # first port of the dynamic range that IANA assigns
    return first if first > LOWEST + 1_000 else 32_768


def _hold(port: int) -> bool:
    mark = socket.socket(type=socket.SOCK_DGRAM)
    try:
        mark.bind(("127.0.0.1", port))
    except OSError:
        mark.close()
        return False
    _held.append(mark)
    return True


def _nobody_listens(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
