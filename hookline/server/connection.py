"""A connection of the HTTP server. It extends uvicorn's connection with limits on time and memory.

All received bytes go to the parser, and only the parser's callbacks make decisions. So the result does not depend on
how the network splits the bytes.
"""

from __future__ import annotations

import asyncio
import fcntl
import termios
from array import array
from collections.abc import Callable, Sized
from typing import Any

import httptools
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hookline.server import request_heads
from hookline.server.connection_limits import ConnectionLimits
from hookline.web.errors import Refused, problem
from hookline.web.health import PATHS

# Maximum seconds from the start of a connection to the first byte of its first request. Also the maximum seconds from
# the first byte of each request to its last.
REQUEST_TIME = 60.0
READ_TIME = 30.0  # seconds in which a client must read at least MIN_READ bytes of its response
MIN_READ = 256 * 1024  # bytes that a client must read in READ_TIME; if fewer bytes are left, it must read all of them
MAX_HEAD = 64 * 1024  # bytes of headers or trailers; the middleware has a lower limit with a clearer error
NO_ROOM = "the server has too many requests under way: try again in a moment"
MAX_QUEUED = 64  # pipelined requests that wait on a connection; a single read can bring thousands


class Connection(HttpToolsProtocol):
    """uvicorn's connection with time limits and size limits.

    uvicorn waits without limit for a request to arrive and for a client to read its response, and it buffers any
    number of headers and requests. This class closes the connection instead. An invalid request gets an error
    response, after the responses to earlier requests. Bytes after an invalid request are ignored.
    """

    _request_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None  # runs until the next check of how much the client has read
    _in_head = False
    _in_body = False
    # Received bytes of the current head or trailers, to refuse more than MAX_HEAD. The count starts again at 0 when a
    # head begins or ends, when a part of a body arrives, and when a request ends. The bytes that arrive together with
    # such an event are not counted.
    _buffered = 0
    # The parser stops after the head of a request with an `Upgrade` header. `_feed` then creates a new instance of the
    # same parser. The new instance first reads these bytes, a minimal head with the headers that delimit the body, and
    # then the body.
    _skipped_framing = b""
    _resuming = False  # True while the new instance reads `_skipped_framing`, not bytes of the client
    _over = False  # True if no further request is read from this connection

    def __init__(self, *args: Any, room: ConnectionLimits | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = room or ConnectionLimits()
        self._full_app = self.app

    # ── from the transport ──

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._start_request_timer()
        self._limits.enter(self, self.client[0] if self.client else "")

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._unset_keepalive_if_required()
        self._buffered += len(data)
        try:
            self._feed(memoryview(data))
        except httptools.HttpParserError as error:
            if not self._over:
                self._refuse(*_reason(error))
        if self._buffered > MAX_HEAD and not self._over:
            self._refuse(431, f"the request's head is larger than {MAX_HEAD} bytes")

    def _feed(self, data: memoryview) -> None:
        """Pass received bytes to the parser. The parser stops after a head with an `Upgrade` header, so a new instance
        of the parser reads the rest."""
        while True:
            try:
                return self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self._resume()

    def _resume(self) -> None:
        if self._skipped_framing:
            self._resuming = True
            self.parser.feed_data(self._skipped_framing)
            self._resuming, self._skipped_framing = False, b""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._limits.leave(self)
        self._stop_request_timer()
        if self._read_timer is not None:
            self._read_timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reading()

    # ── from the parser ──

    def on_message_begin(self) -> None:
        if self._resuming:
            return
        if self._over:
            raise Refused(400, "nothing is read after the last request")
        super().on_message_begin()
        self._in_head, self._buffered = True, 0
        self._start_request_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers are dropped, because no handler uses them
            super().on_header(name, value)
        elif not self._resuming and name.lower() in request_heads.NOT_IN_TRAILERS:
            raise Refused(400, f"{name.decode('latin-1')} is not allowed in trailers: send it as a header")

    def on_headers_complete(self) -> None:
        if self._resuming:
            return
        self._in_head, self._buffered = False, 0
        fault = request_heads.fault(self.parser.get_http_version(), self.parser.get_method(), self.url, self.headers)
        if fault is not None:
            raise Refused(400, fault)
        if len(self.pipeline) >= MAX_QUEUED:
            raise Refused(429, f"more than {MAX_QUEUED} requests wait on this connection: read the responses first")
        self._limits.awaits(self)
        has_room = self._limits.has_room(self)
        self.app = self._full_app if has_room else self._answer_without_room
        super().on_headers_complete()
        response = _OneWrite(self.transport, self.loop, self.cycle.on_response)
        self.cycle.transport = response  # type: ignore[assignment]  # it has all methods that uvicorn's cycle uses
        self.cycle.on_response = response.ended
        self.cycle.keep_alive &= has_room
        self.cycle.waiting_for_100_continue &= self.parser.get_http_version() != "1.0"  # HTTP/1.0 has no 100 Continue
        self._in_body = True
        if self.parser.should_upgrade():
            self._skipped_framing = request_heads.framing(self.headers)

    def on_body(self, body: bytes) -> None:
        self._buffered = 0
        if not self.cycle.response_complete:
            self._limits.awaits(self)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._skipped_framing:
            return
        self._in_body, self._buffered = False, 0
        if not self.cycle.response_complete:
            self._limits.busy(self)
        self._over = not self.cycle.keep_alive
        super().on_message_complete()
        self._stop_request_timer()

    # ── from the application ──

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_reading()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._limits.idle(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start a request only after the client has read the earlier responses, to limit the responses in memory."""
        super()._start_asgi_task(cycle, self._after_drain(app) if self.flow.write_paused else app)

    def _after_drain(self, app: ASGIApp) -> Any:
        async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
            await self.flow.drain()
            await app(scope, receive, send)

        return waiting

    # ── invalid requests ──

    def _refuse(self, status: int, detail: str) -> None:
        self._over = True
        self._stop_request_timer()
        if self._in_body and not self._give_up():
            self.transport.close()
        else:
            self._limits.busy(self)
            self._answer(problem(status, detail))

    def _give_up(self) -> bool:
        """Drop the request whose body is invalid. Return False if its response has already started."""
        if self.pipeline and self.pipeline[0][0] is self.cycle:
            self.pipeline.popleft()
        elif self.cycle.response_started:
            return False
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        return True

    def _answer(self, app: ASGIApp) -> None:
        """Send the response of `app`, which refuses an invalid request, and then close the connection. Responses to
        earlier requests of this connection are sent first."""
        last = self.cycle
        self.cycle = RequestResponseCycle(
            scope={"type": "http", "method": "GET", "path": "", "headers": []},  # type: ignore[typeddict-item]
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=False,
            on_response=self.on_response_complete,
        )
        if last is None or last.response_complete or last.disconnected:
            task = self.loop.create_task(self.cycle.run_asgi(app))  # type: ignore[arg-type]
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        else:
            self.pipeline.appendleft((self.cycle, app))  # type: ignore[arg-type]

    # ── limits ──

    async def _answer_without_room(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 503 to a request on a connection beyond the connection limit. Health checks of orchestrators and load
        balancers get their normal answer."""
        app = self._full_app if scope["path"].rstrip("/") in PATHS else problem(503, NO_ROOM, retry_after=1)
        await app(scope, receive, send)

    def close_if_idle(self) -> bool:
        """Close the connection if no response waits in memory and all received bytes were read. Return whether it
        closed."""
        if self.held() or not self._is_read_out():
            return False
        self.transport.close()
        return True

    def refuse_if_awaited(self) -> bool:
        """Refuse the request if its body is incomplete and all received bytes were read. Return whether it was
        refused."""
        if not self._is_awaiting() or not self._is_read_out():
            return False
        self._refuse(503, NO_ROOM)
        return True

    def _is_awaiting(self) -> bool:
        """Return whether the only unanswered request is still arriving, so that it can be refused."""
        return self._in_body and not self._over and not self.pipeline and not self.cycle.response_started

    def held(self) -> int:
        """Return the number of response bytes that wait in memory until the client reads them."""
        return self.transport.get_write_buffer_size()

    def let_go(self) -> bool:
        """Abort the connection if a response waits in memory, and leave it open if not. Return whether it was aborted.

        Closing the connection instead would wait until the client reads the response.
        """
        if not self.held():
            return False
        self.abort()
        return True

    def _is_read_out(self) -> bool:
        """Return whether the server has read all received bytes. A busy event loop may not have read them yet."""
        connected = self.transport.get_extra_info("socket")
        unread = array("i", [0])
        if connected is not None and connected.fileno() >= 0:
            fcntl.ioctl(connected.fileno(), termios.FIONREAD, unread)
        return not unread[0]

    def abort(self) -> None:
        self.transport.abort()

    # ── time ──

    def _start_request_timer(self) -> None:
        self._stop_request_timer()
        self._request_timer = self.loop.call_later(REQUEST_TIME, self.transport.close)

    def _stop_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _watch_reading(self) -> None:
        """Start to check that the client reads its response. Otherwise the response could stay in memory for ever."""
        self._limits.hold(self)
        left = self.transport.get_write_buffer_size()
        if left and self._read_timer is None:
            self._read_timer = self.loop.call_later(READ_TIME, self._check_reading, left)

    def _check_reading(self, before: int) -> None:
        self._read_timer = None
        if self.transport.get_write_buffer_size() > max(0, before - MIN_READ):
            self.transport.abort()
        else:
            self._watch_reading()


class _OneWrite:
    """The transport of one response. It sends the head together with the first part of the body.

    uvicorn writes both separately. Each write is a system call and a packet, and the client wakes for each packet. If no
    body follows at once, the head is sent alone.
    """

    __slots__ = ("_head", "_loop", "_on_response", "_transport")

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, on_response: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._on_response = on_response
        self._head: bytes | None = b""

    def write(self, data: bytes) -> None:
        if self._head is None:
            self._transport.write(data)
        elif self._head:
            self._transport.write(self._head + data)
            self._head = None
        else:
            self._head = data
            self._loop.call_soon(self._flush)

    def ended(self) -> None:
        """Send a response without a body, such as that to a HEAD request."""
        self._flush()
        self._on_response()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, None
            if not self._transport.is_closing():
                self._transport.write(head)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


class _Flow(FlowControl):
    """Pauses reading while requests are queued. uvicorn's own flow control would resume reading after each
    response."""

    def __init__(self, transport: asyncio.Transport, queued: Sized) -> None:
        super().__init__(transport)
        self._queued = queued

    def resume_reading(self) -> None:
        if not self._queued:
            super().resume_reading()


def _reason(error: httptools.HttpParserError) -> tuple[int, str]:
    cause = error.__context__
    if isinstance(cause, Refused):
        return cause.status, str(cause)
    return 400, f"this is not a valid HTTP request: {error}"
