"""Binds the listening socket, and handles the signals that stop a command. It imports no web server."""

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
    """Return a listening socket, or raise `ConfigError`. Port 0 selects any free port."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except UnicodeError:
        raise ConfigError(f"cannot listen on {host}: not a host name") from None
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}: {error.strerror}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(2048)  # from now on clients are not refused; they wait until the server is ready
    except OSError as error:
        listener.close()
        hint = ""
        if error.errno == errno.EADDRINUSE:
            hint = "; another process uses it: stop that process, or choose another port (HOOKLINE_PORT, --port)"
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}{hint}") from None
    return listener


def address(listener: socket.socket) -> str:
    """Return the address as a user would type it: `http://127.0.0.1:8071`."""
    return shown_address(*listener.getsockname()[:2])


def shown_address(host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - shown, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_local(listener: socket.socket) -> bool:
    """Return whether the listening socket accepts only connections from this machine."""
    return is_loopback(listener.getsockname()[0])


@contextlib.contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """Yield an event that SIGINT, SIGTERM or SIGHUP sets. A second SIGINT ends the process at once.

    Further SIGTERMs and SIGHUPs change nothing, because a process often gets several when it is stopped once. systemd
    signals the whole process group, and the supervisor then signals its workers. When a terminal closes, the kernel
    and the shell both send SIGHUP. SIGHUP is ignored if the process was started with `nohup`.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` sets SIG_IGN
        numbers.append(signal.SIGHUP)

    def on_signal(number: signal.Signals) -> None:
        stop.set()
        if number == signal.SIGINT:
            loop.remove_signal_handler(number)  # the default effect of a signal: the second Ctrl-C ends the process

    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def stop_after(leaving: asyncio.Event, delay: float, stop: asyncio.Event) -> None:
    """Set `stop` some seconds (`delay`) after `leaving`.

    Until then the server answers requests but reports that it is not ready, so that load balancers stop using it.
    """
    await leaving.wait()
    await asyncio.sleep(delay)
    stop.set()
