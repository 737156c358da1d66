"""uvicorn, started and stopped by us, without signal handlers of its own."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Iterator
from http import HTTPStatus

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hookline.api.errors import problem

MOST_CONNECTIONS = 4096  # beyond them, requests are answered with 503
REQUEST_TIME = 60.0  # seconds from connecting, or from a request's first byte, until all of it must have come
TAKING_TIME = 30.0  # seconds in which a caller must take something of an answer that waits for it ...
LEAST_TAKEN = 64 * 1024  # ... this many bytes, or all that is left
MOST_HEAD = 64 * 1024  # bytes of a request's line and headers that are gathered; the front allows less, and says so

_OFFER = re.compile(rb"\r\nupgrade:", re.I)


class _Protocol(HttpToolsProtocol):
    """uvicorn waits for ever for a request that was begun, or that is never begun at all, or for a caller that does not take
    its answer, and gathers headers without end. We hang up. What is no request at all is answered in the shape of every
    other error."""

    _late: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None  # until the next look at what the caller has left of its answers
    _head: int | None = 0  # bytes of a head that is not complete yet, but for those that came with its first one

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        was_open = self._head is not None
        begins = was_open or self._late is None  # else it is part of a body
        super().data_received(_without_offer(data) if begins and _OFFER.search(data) else data)
        if was_open and self._head is not None:
            self._head += len(data)
            if self._head > MOST_HEAD:
                self._refuse(431, f"the request's head is larger than {MOST_HEAD} bytes")

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _refuse(self, status: int, detail: str) -> None:
        if self.cycle is None or self.cycle.response_complete:  # else another answer is on its way on this connection
            answer = problem(status, detail)
            head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(), b"connection: close"]
            head += [name + b": " + value for name, value in answer.raw_headers]
            self.transport.write(b"\r\n".join([*head, b"", bytes(answer.body)]))
        self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        self._expect()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:  # a trailer is not a header, and nobody asks for one
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._came()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_taking()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_taking()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._came()
        if self._untaken is not None:
            self._untaken.cancel()

    def _expect(self) -> None:
        self._came()
        self._late = self.loop.call_later(REQUEST_TIME, self.transport.close)

    def _came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _watch_taking(self) -> None:
        """While something waits to be taken: to close the connection would wait for that too."""
        left = self.transport.get_write_buffer_size()
        if left and self._untaken is None:
            self._untaken = self.loop.call_later(TAKING_TIME, self._look_at_taking, left)

    def _look_at_taking(self, before: int) -> None:
        self._untaken = None
        if self.transport.get_write_buffer_size() > max(0, before - LEAST_TAKEN):
            self.transport.abort()
        else:
            self._watch_taking()


def _without_offer(data: bytes) -> bytes:
    """A head that offers no other protocol: the parser would take the offer up, and leave out the request's body."""
    head, end, rest = data.partition(b"\r\n\r\n")
    return _OFFER.sub(b"\r\nx-upgrade:", head) + end + rest


class _Server(uvicorn.Server):
    """Signals belong to the command, which has more to stop than this server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
