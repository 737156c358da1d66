"""One connection of the HTTP server: uvicorn's, with bounds on what a caller may make it wait for or gather.

The bytes that come are given to the parser as they are. What they mean is decided in its callbacks, so that it does not
matter in which pieces they come.
"""

from __future__ import annotations

import asyncio
import fcntl
import termios
from array import array
from collections.abc import Sized
from typing import Any

import httptools
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hookline.server import request_heads
from hookline.server.connection_limits import ConnectionLimits
from hookline.web.errors import Refused, problem
from hookline.web.health import PATHS

REQUEST_TIME = 60.0  # seconds from connecting, or from a request's first byte, until all of it must have come
TAKING_TIME = 30.0  # seconds in which a caller must take something of an answer that waits for it ...
LEAST_TAKEN = 256 * 1024  # ... this many bytes, or all that is left
MAX_HEAD = 64 * 1024  # bytes of a head, or of trailers, that are gathered; the front allows less, and says so
MAX_QUEUED = 64  # requests that wait on a connection for the answers before theirs: one read can bring thousands


class Connection(HttpToolsProtocol):
    """uvicorn waits for ever for a request that was begun, or that is never begun at all, or for a caller that does not take
    its answer, and gathers headers and requests without end. We hang up. What is no request at all is answered in the
    shape of every other error, after the answers to those before it, and nothing behind it is read."""

    _late: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None  # until the next look at what the caller has left of its answers
    _in_head = False
    _in_body = False
    _gathered = 0  # bytes since something was made of them, but for those that came with a request's first one
    _left_out = b""  # the head for a second parser, while the first one leaves out the body of a request
    _resuming = False  # that head is being read
    _over = False  # nothing is read from here on

    def __init__(self, *args: Any, room: ConnectionLimits | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._room = room or ConnectionLimits()
        self._whole_app = self.app

    # ── from the transport ──

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._expect()
        self._room.enter(self, self.client[0] if self.client else "")

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._unset_keepalive_if_required()
        self._gathered += len(data)
        try:
            self._feed(memoryview(data))
        except httptools.HttpParserError as error:
            if not self._over:
                self._refuse(*_reason(error))
        if self._gathered > MAX_HEAD and not self._over:
            self._refuse(431, f"the request's head is larger than {MAX_HEAD} bytes")

    def _feed(self, data: memoryview) -> None:
        """An offer of another protocol stops the parser, which takes it for accepted, behind the head. Another one reads on."""
        while True:
            try:
                return self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self._resume()

    def _resume(self) -> None:
        if self._left_out:
            self._resuming = True
            self.parser.feed_data(self._left_out)
            self._resuming, self._left_out = False, b""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._room.leave(self)
        self._came()
        if self._untaken is not None:
            self._untaken.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_taking()

    # ── from the parser ──

    def on_message_begin(self) -> None:
        if self._resuming:
            return
        if self._over:
            raise Refused(400, "nothing is read behind the last request")
        super().on_message_begin()
        self._in_head, self._gathered = True, 0
        self._expect()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer is not a header, and nobody asks for one
            super().on_header(name, value)
        elif not self._resuming and name.lower() in request_heads.NOT_IN_TRAILERS:
            raise Refused(400, f"{name.decode('latin-1')} is not for trailers: send it as a header")

    def on_headers_complete(self) -> None:
        if self._resuming:
            return
        self._in_head, self._gathered = False, 0
        fault = request_heads.fault(self.parser.get_http_version(), self.parser.get_method(), self.url, self.headers)
        if fault is not None:
            raise Refused(400, fault)
        if len(self.pipeline) >= MAX_QUEUED:
            raise Refused(429, f"more than {MAX_QUEUED} requests wait on this connection: read the answers first")
        self._room.awaits(self)
        has_room = self._room.has_room(self)
        self.app = self._whole_app if has_room else _NoRoom(self._whole_app)
        super().on_headers_complete()
        self.cycle.keep_alive &= has_room
        self.cycle.waiting_for_100_continue &= self.parser.get_http_version() != "1.0"  # which does not know of it
        self._in_body = True
        if self.parser.should_upgrade():
            self._left_out = request_heads.framing(self.headers)

    def on_body(self, body: bytes) -> None:
        self._gathered = 0
        if not self.cycle.response_complete:
            self._room.awaits(self)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._left_out:
            return
        self._in_body, self._gathered = False, 0
        if not self.cycle.response_complete:
            self._room.busy(self)
        self._over = not self.cycle.keep_alive
        super().on_message_complete()
        self._came()

    # ── from the application ──

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_taking()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._room.idle(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Not before the answers before this one were taken, but for a little: its own would be one more in memory."""
        super()._start_asgi_task(cycle, self._once_taken(app) if self.flow.write_paused else app)

    def _once_taken(self, app: ASGIApp) -> Any:
        async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
            await self.flow.drain()
            await app(scope, receive, send)

        return waiting

    # ── what is no request ──

    def _refuse(self, status: int, detail: str) -> None:
        self._over = True
        self._came()
        if self._in_body and not self._give_up():
            self.transport.close()
        else:
            self._room.busy(self)
            self._answer(problem(status, detail))

    def _give_up(self) -> bool:
        """The request whose body is no body. False: it has been answered already, if only in part."""
        if self.pipeline and self.pipeline[0][0] is self.cycle:
            self.pipeline.popleft()
        elif self.cycle.response_started:
            return False
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        return True

    def _answer(self, app: ASGIApp) -> None:
        """In its turn, and then hang up."""
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

    # ── room ──

    def close_if_idle(self) -> bool:
        if self.held() or not self._is_read_out():
            return False
        self.transport.close()
        return True

    def refuse_if_awaited(self) -> bool:
        if not self._is_awaiting() or not self._is_read_out():
            return False
        self._refuse(503, NO_ROOM)
        return True

    def _is_awaiting(self) -> bool:
        """Whether the only request that is not answered yet has not come whole: nothing was done for it."""
        return self._in_body and not self._over and not self.pipeline and not self.cycle.response_started

    def held(self) -> int:
        return self.transport.get_write_buffer_size()

    def let_go(self) -> bool:
        """To close it would wait until the answer is taken."""
        if not self.held():
            return False
        self.abort()
        return True

    def _is_read_out(self) -> bool:
        """Whether all bytes that arrived were read: the loop accepts many connections before it reads from the first one."""
        ours = self.transport.get_extra_info("socket")
        waiting = array("i", [0])
        if ours is not None and ours.fileno() >= 0:
            fcntl.ioctl(ours.fileno(), termios.FIONREAD, waiting)
        return not waiting[0]

    def abort(self) -> None:
        self.transport.abort()

    # ── time ──

    def _expect(self) -> None:
        self._came()
        self._late = self.loop.call_later(REQUEST_TIME, self.transport.close)

    def _came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _watch_taking(self) -> None:
        """While something waits to be taken: to close the connection would wait for that too."""
        self._room.hold(self)
        left = self.transport.get_write_buffer_size()
        if left and self._untaken is None:
            self._untaken = self.loop.call_later(TAKING_TIME, self._look_at_taking, left)

    def _look_at_taking(self, before: int) -> None:
        self._untaken = None
        if self.transport.get_write_buffer_size() > max(0, before - LEAST_TAKEN):
            self.transport.abort()
        else:
            self._watch_taking()


class _Flow(FlowControl):
    """uvicorn reads on after each answer. Nothing is read while a request waits: the one that is answered came whole."""

    def __init__(self, transport: asyncio.Transport, queued: Sized) -> None:
        super().__init__(transport)
        self._queued = queued

    def resume_reading(self) -> None:
        if not self._queued:
            super().resume_reading()


class _NoRoom:
    """For a connection beyond the most: orchestrators and load balancers still get the health."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app if scope["path"].rstrip("/") in PATHS else problem(503, NO_ROOM, retry_after=1)
        await app(scope, receive, send)


NO_ROOM = "the server has too many requests under way: try again in a moment"


def _reason(error: httptools.HttpParserError) -> tuple[int, str]:
    cause = error.__context__
    if isinstance(cause, Refused):
        return cause.status, str(cause)
    return 400, f"this is not a valid HTTP request: {error}"
