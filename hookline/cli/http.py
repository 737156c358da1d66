"""uvicorn, started and stopped by us: a socket that is bound before anything else, and no signal handlers of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hookline.errors import ConfigError

MOST_CONNECTIONS = 4096  # beyond them, requests are answered with 503
REQUEST_TIME = 60.0  # seconds from connecting, or from a request's first byte, until all of it must have come


class _Protocol(HttpToolsProtocol):
    """uvicorn waits for ever for a request that was begun, or that is never begun at all. We hang up."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._came()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._came()

    def _expect(self) -> None:
        self._came()
        self._late = self.loop.call_later(REQUEST_TIME, self.transport.close)

    def _came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Server(uvicorn.Server):
    """Signals belong to the command, which has more to stop than this server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
        hint = "; another process has it" if error.errno == errno.EADDRINUSE else ""
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror}{hint}") from None
    return listener


def address(listener: socket.socket) -> str:
    """`http://127.0.0.1:8071`, as one would type it."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - shown, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(app: ASGIApp, listener: socket.socket, *, stop: asyncio.Event, grace: float) -> None:
    """Answer requests until the stop, then finish those under way."""
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await running
    finally:
        stopping.cancel()
        running.cancel()


@contextlib.contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """Set by SIGINT or SIGTERM. A second signal ends the process as if we were not here."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def asked(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked, number)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
