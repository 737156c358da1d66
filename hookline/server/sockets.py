"""A socket that is bound before anything else, and the signals that end a command. Light: no server is imported for it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Iterator

from hookline.errors import ConfigError
from hookline.web.public_url import is_loopback


def bind(host: str, port: int) -> socket.socket:
    """A listening address, or one clear line. Port 0 takes any free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}: {error.strerror}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(2048)  # whoever connects from now on waits until we are ready, and is not refused
    except OSError as error:
        listener.close()
        hint = (
            "; another process has it: end that, or choose another port (HOOKLINE_PORT, --port)"
            if error.errno == errno.EADDRINUSE
            else ""
        )
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}{hint}") from None
    return listener


def address(listener: socket.socket) -> str:
    """`http://127.0.0.1:8071`, as one would type it."""
    return shown_address(*listener.getsockname()[:2])


def shown_address(host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - shown, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_local(listener: socket.socket) -> bool:
    """Only this machine reaches it."""
    return is_loopback(listener.getsockname()[0])


@contextlib.contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """Set by SIGINT or SIGTERM, or when the terminal is gone, unless we were told to outlive it. A second signal ends the process
    as if we were not here."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as `nohup` leaves it
        ends.append(signal.SIGHUP)

    def asked(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in ends:
        loop.add_signal_handler(number, asked, number)
    try:
        yield stop
    finally:
        for number in ends:
            loop.remove_signal_handler(number)


async def stop_after(leaving: asyncio.Event, delay: float, stop: asyncio.Event) -> None:
    """Between the two we are not ready any more and still answer: whoever sends requests here has time to notice."""
    await leaving.wait()
    await asyncio.sleep(delay)
    stop.set()
