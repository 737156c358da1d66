"""At the connection limit the server closes the longest idle connections first.

It never drops requests in progress, and it always answers the health routes.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from hookline.server import http as server
from hookline.server import sockets as listeners
from hookline.server.connection import MAX_QUEUED
from hookline.server.connection_limits import ConnectionLimits
from hookline.web.health import Health, StartupApp
from tests.support.cli import COMMAND, Cli
from tests.support.ports import free_port

LARGE = b"x" * 1024 * 1024
FIRST, SECOND, THIRD = "127.0.0.2", "127.0.0.3", "127.0.0.4"


class App:
    """A test server.

    It answers `/slow` only after `release` is set. `begun` gets one item for each `/slow` request that has started,
    `answered` one for each answer to `/large`, and `read` each part of a request body.
    """

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.answered: asyncio.Queue[str] = asyncio.Queue()
        self.read: asyncio.Queue[bytes] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/large":
            await PlainTextResponse(LARGE)(scope, receive, send)
            self.answered.put_nowait(scope["client"][0])
            return
        if scope["method"] == "POST":
            while (message := await receive()).get("more_body"):
                self.read.put_nowait(message["body"])
            if message["type"] == "http.disconnect":
                return
        if scope["path"] == "/slow":
            self.begun.put_nowait(scope["client"][0])
            await self.release.wait()
        await PlainTextResponse("done")(scope, receive, send)


class Line:
    """One client connection from a loopback address of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def asks(self, path: str) -> int:
        self.sends(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")
        return await self.status()

    def sends(self, text: str) -> None:
        self.writer.write(text.encode())

    async def status(self) -> int:
        """Read one answer and return its status, or 0 if the server has closed the connection."""
        async with asyncio.timeout(60):
            try:
                head = await self.reader.readuntil(b"\r\n\r\n")
                length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
                await self.reader.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError):
                return 0
            return int(head.split()[1])

    async def ended(self) -> None:
        assert await self.status() == 0


class Place:
    def __init__(self, port: int, app: App) -> None:
        self.port = port
        self.app = app
        self.lines: list[Line] = []

    async def line(self, address: str) -> Line:
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.bind((address, 0))
        narrow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", self.port))
        made = Line(*await asyncio.open_connection(sock=narrow))
        self.lines.append(made)
        return made

    async def awaited(self, address: str, number: int) -> list[Line]:
        """Open connections and send on each a request whose body lacks its last byte."""
        lines = await self.silent(address, number)
        for line in lines:
            line.sends("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\na")
            assert await self.app.read.get() == b"a"
            line.sends("b")
            assert await self.app.read.get() == b"b"
        return lines

    async def untaken(self, address: str, number: int = 1) -> list[Line]:
        """Open connections and request on each a large answer that the client does not read."""
        lines = await self.silent(address, number)
        for line in lines:
            line.sends("GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
            assert await self.app.answered.get() == address
        return lines

    async def silent(self, address: str, number: int) -> list[Line]:
        return [await self.line(address) for _ in range(number)]

    async def slow(self, address: str, number: int) -> list[Line]:
        """Open connections with a request in progress on each."""
        lines = await self.silent(address, number)
        for line in lines:
            line.sends("GET /slow HTTP/1.1\r\nhost: a\r\n\r\n")
            assert await self.app.begun.get() == address
        return lines

    async def asks(self, address: str, path: str = "/") -> int:
        """Send one request over a new connection and return the status."""
        return await (await self.line(address)).asks(path)


@asynccontextmanager
async def place(room: ConnectionLimits, health: Health | None = None) -> AsyncIterator[Place]:
    app, stop, listener = App(), asyncio.Event(), listeners.bind("127.0.0.1", 0)
    # a small send buffer keeps large answers in the server's memory
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    door = StartupApp(health or Health(asyncio.Event()))
    door.open(app)
    serving = asyncio.create_task(server.serve(door, listener, stop=stop, grace=5, room=room))
    made = Place(listener.getsockname()[1], app)
    try:
        yield made
    finally:
        app.release.set()
        for line in made.lines:
            line.writer.close()
        stop.set()
        await serving


async def test_the_longest_idle_of_an_address_make_room_for_its_next() -> None:
    async with place(ConnectionLimits(limit=100, per_address=3)) as there:
        other = await there.line(SECOND)
        lines = await there.silent(FIRST, 20)
        for line in lines[:17]:
            await line.ended()
        assert [await line.asks("/") for line in [*lines[17:], other]] == [200] * 4
        assert await there.asks(FIRST) == 200


async def test_the_longest_idle_of_all_make_room_for_anybodys_next() -> None:
    async with place(ConnectionLimits(limit=3, per_address=100)) as there:
        lines = [await there.line(address) for address in (FIRST, SECOND, THIRD)]
        assert await lines[0].asks("/") == 200  # this connection has been used, so another one is now the longest idle
        assert await there.asks("127.0.0.5", "/health/live") == 200
        await lines[1].ended()
        assert await there.asks("127.0.0.6") == 200
        await lines[2].ended()
        assert await lines[0].asks("/") == 200


async def test_a_slow_incomplete_head_does_not_count_as_a_request() -> None:
    async with place(ConnectionLimits(limit=100, per_address=2)) as there:
        dripping = await there.silent(FIRST, 2)
        for line in dripping:
            line.sends("POST / HTTP/1.1\r\nhost: a\r\nx: ")
            await line.writer.drain()
        assert await there.asks(SECOND) == 200  # this answer proves that the server has read both heads
        assert [await there.asks(FIRST), await there.asks(FIRST)] == [200, 200]
        for line in dripping:
            await line.ended()


async def test_requests_in_progress_are_never_dropped() -> None:
    """At the limit of one address, the server answers its further requests with 503, except health checks."""
    async with place(ConnectionLimits(limit=100, per_address=3)) as there:
        slow = await there.slow(FIRST, 3)
        silent = await there.silent(FIRST, 30)
        assert await there.asks(FIRST) == 503
        for path in ("/health/live", "/health/live/"):
            assert await there.asks(FIRST, path) == 200
        assert (
            await there.asks(FIRST, "/health/ready") == 503
        )  # the readiness check itself answers 503, because no store is open
        assert await there.asks(SECOND) == 200
        for line in silent[:-1]:
            await line.ended()
        there.app.release.set()
        assert [await line.status() for line in slow] == [200] * 3
        assert [await line.asks("/") for line in slow] == [200] * 3


async def test_the_health_is_answered_when_every_connection_is_busy() -> None:
    async with place(ConnectionLimits(limit=3, per_address=100)) as there:
        slow = [line for address in (FIRST, SECOND, THIRD) for line in await there.slow(address, 1)]
        for number in range(5, 25):
            await there.line(f"127.0.0.{number}")
            assert await there.asks(f"127.0.0.{number}", "/health/live") == 200
            assert await there.asks(f"127.0.0.{number}") == 503
        there.app.release.set()
        assert [await line.status() for line in slow] == [200] * 3
        assert await there.asks("127.0.0.5") == 200


async def test_a_refusal_says_when_to_come_again_and_hangs_up() -> None:
    async with place(ConnectionLimits(limit=100, per_address=1)) as there:
        with capture_logs() as logged:
            await there.slow(FIRST, 1)
            line = await there.line(FIRST)
            line.sends(
                "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcGET /slow HTTP/1.1\r\nhost: a\r\n\r\n"
            )
            answer = (await line.reader.read()).lower()
        assert answer.startswith(b"http/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in answer
        assert b"\r\nconnection: close\r\n" in answer
        assert b'"code":"unavailable"' in answer
        assert there.app.begun.empty()
        assert [entry["most"] for entry in logged if entry["event"] == "connections_full"] == [1]


async def test_no_connection_is_accepted_beyond_the_spare_ones() -> None:
    """The number of spare connections for health checks is limited too."""
    health = Waiting()
    async with place(ConnectionLimits(limit=100, per_address=1), health) as there:
        await there.slow(FIRST, 1)
        waiting = []
        for _ in range(4):
            waiting.append(await there.line(FIRST))
            waiting[-1].sends("GET /health/ready HTTP/1.1\r\nhost: a\r\n\r\n")
            await health.asked.get()
        for _ in range(3):
            assert await there.asks(FIRST, "/health/live") == 0
        assert await there.asks(SECOND, "/health/live") == 200
        health.release.set()
        assert [await line.status() for line in waiting] == [200] * 4
        assert await there.asks(FIRST, "/health/live") == 200


class Waiting(Health):
    """A health check that waits until the test releases it, as with a slow database."""

    def __init__(self) -> None:
        super().__init__(asyncio.Event())
        self.release = asyncio.Event()
        self.asked: asyncio.Queue[None] = asyncio.Queue()

    async def unready(self) -> list[str]:
        self.asked.put_nowait(None)
        await self.release.wait()
        return []


@pytest.mark.parametrize("room", [{"per_address": 3}, {"limit": 3, "per_address": 2, "proxies": [FIRST]}])
async def test_bodies_that_do_not_come_shut_nobody_out(room: dict[str, Any]) -> None:
    """If no connection is idle, the server refuses the request whose body it has waited for longest. That
    request has not run yet."""
    async with place(ConnectionLimits(**room)) as there:
        lines = await there.awaited(FIRST, 3)
        assert await there.asks(FIRST) == 200  # this connection is idle afterwards
        assert [await lines[0].status(), await lines[0].status()] == [503, 0]
        for line in lines[1:]:
            line.sends("c")
            assert await line.status() == 200


async def test_a_body_that_comes_slowly_is_refused_after_those_that_do_not_come() -> None:
    async with place(ConnectionLimits(per_address=3)) as there:
        lines = await there.silent(FIRST, 3)
        for line in lines:
            line.sends("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\na")
            assert await there.app.read.get() == b"a"
        lines[0].sends("b")
        assert await there.app.read.get() == b"b"
        assert await there.asks(FIRST) == 200
        assert await lines[1].status() == 503
        lines[0].sends("c")
        assert await lines[0].status() == 200


async def test_idle_connections_go_before_awaited_bodies() -> None:
    async with place(ConnectionLimits(per_address=3)) as there:
        lines = await there.awaited(FIRST, 2)
        silent = await there.line(FIRST)
        assert await there.asks(FIRST) == 200
        await silent.ended()
        for line in lines:
            line.sends("c")
            assert await line.status() == 200


async def test_a_request_that_came_whole_is_not_cut_for_the_body_behind_it() -> None:
    async with place(ConnectionLimits(per_address=1)) as there:
        line = await there.line(FIRST)
        line.sends("GET /slow HTTP/1.1\r\nhost: a\r\n\r\nPOST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\na")
        assert await there.app.begun.get() == FIRST
        assert await there.asks(FIRST) == 503
        there.app.release.set()
        line.sends("bc")
        assert [await line.status(), await line.status()] == [200, 200]


async def test_few_requests_wait_on_one_connection() -> None:
    """One read can bring thousands of pipelined requests. Those beyond the limit are refused and never run."""
    async with place(ConnectionLimits()) as there:
        line = await there.line(FIRST)
        paths = ["/slow", *["/"] * MAX_QUEUED, *["/slow"] * 500]
        line.sends("".join(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n" for path in paths))
        assert await there.app.begun.get() == FIRST
        there.app.release.set()
        assert [await line.status() for _ in range(MAX_QUEUED + 3)] == [200] * (MAX_QUEUED + 1) + [429, 0]
        assert there.app.begun.empty()


MIB = 1024 * 1024


async def test_answers_that_one_address_does_not_take() -> None:
    """Unread answers use memory. Over the limit of one address, the server closes the oldest connection of this
    address, and none of another address."""
    async with place(ConnectionLimits(held=100 * MIB, held_per_address=3 * MIB)) as there:
        other = await there.untaken(SECOND)
        lines = await there.untaken(FIRST, 5)
        assert [await line.status() for line in [*lines, *other]] == [0, 0, 200, 200, 200, 200]
        assert await lines[-1].asks("/large") == 200


async def test_unread_answers_of_all_addresses_are_limited() -> None:
    async with place(ConnectionLimits(held=3 * MIB, held_per_address=2 * MIB, proxies=[FIRST])) as there:
        lines = [*await there.untaken(SECOND), *await there.untaken(FIRST, 4)]
        assert [await line.status() for line in lines] == [0, 0, 200, 200, 200]


async def test_answers_that_were_read_do_not_count() -> None:
    async with place(ConnectionLimits(held=3 * MIB, held_per_address=3 * MIB)) as there:
        lines = await there.silent(FIRST, 8)
        assert [await line.asks("/large") for line in lines * 2] == [200] * 16


async def test_an_answer_larger_than_the_limit_is_delivered() -> None:
    async with place(ConnectionLimits(held=1000, held_per_address=100)) as there:
        assert await there.asks(FIRST, "/large") == 200


async def test_the_next_answer_is_not_made_before_the_last_one_was_taken() -> None:
    """If the server ran the next request earlier, one connection would hold two answers, and only one would be counted."""
    async with place(ConnectionLimits()) as there:
        line = await there.line(FIRST)
        line.sends("".join(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n" for path in ("/large", "/slow")))
        assert await there.app.answered.get() == FIRST
        assert await there.asks(SECOND) == 200
        assert there.app.begun.empty()
        assert await line.status() == 200
        assert await there.app.begun.get() == FIRST


async def test_answers_that_wait_to_be_taken_make_room_if_nobody_is_idle() -> None:
    """The oldest unread answers are dropped. The server aborts the connection, because a normal close waits for the
    client."""
    async with place(ConnectionLimits(limit=100, per_address=3)) as there:
        lines = [*await there.untaken(FIRST, 2), *await there.slow(FIRST, 1)]
        assert await there.asks(FIRST) == 200
        assert await lines[0].status() == 0
        there.app.release.set()
        assert [await line.status() for line in lines[1:]] == [200, 200]


async def test_trusted_proxies_may_open_any_number_of_connections() -> None:
    async with place(ConnectionLimits(limit=100, per_address=2, proxies=[FIRST])) as there:
        lines = await there.silent(FIRST, 30)
        assert [await line.asks("/") for line in lines] == [200] * 30


async def test_a_request_that_was_not_read_yet_is_not_cut() -> None:
    """The server accepts many connections before it reads from the first. A connection with an unread request is not
    idle."""
    async with place(ConnectionLimits(limit=100, per_address=3)) as there:
        asking = [_at_once(there.port, b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n") for _ in range(3)]
        # this code has not awaited, so the server has accepted nothing yet
        silent = [_at_once(there.port) for _ in range(5)]
        for each in asking:
            reader, writer = await asyncio.open_connection(sock=each)
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            writer.close()
        for each in silent:
            each.close()


def _at_once(port: int, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.sendall(sent)
    return made


@pytest.mark.parametrize(("soft", "hard"), [(64, 4096), (200, 200)])
async def test_more_connections_than_a_process_may_have_files(tmp_path: Path, soft: int, hard: int) -> None:
    """The server raises the soft limit of open files and stays below the hard limit, with room for its other files."""
    port = int(free_port())
    cli = Cli({"HOOKLINE_PORT": str(port), "HOOKLINE_CONNECTIONS_PER_ADDRESS": "1000000"}, str(tmp_path))
    limited = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", limited, "sh", *COMMAND, "serve", "--role", "api", "--json"),
        env=cli.environment,
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    lines = []
    try:
        assert await process.stdout.readline()
        for number in range(300):
            lines.append(socket.create_connection(("127.0.0.1", port), source_address=(FIRST, 0)))
            if number % 50 == 49:
                for path, status in (("/health/live", 200), ("/api/v1/health", 204)):
                    assert await asyncio.to_thread(_status, port, path) == status
    finally:
        for line in lines:
            line.close()
        process.terminate()
        await process.wait()


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()
