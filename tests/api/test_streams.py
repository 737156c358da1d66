"""A stream of requests is read in the same way, however its bytes are split into packets.

`HOOKLINE_TEST_STREAMS=50000` tries 50,000 random streams. The default is 1,000.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import NamedTuple

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from hookline.server.connection import Connection
from tests.support.cli import Cli
from tests.support.ports import free_port
from tests.support.streams import BROKEN, BROKEN_BODIES, Request, cut, marred, stream

STREAMS = int(os.environ.get("HOOKLINE_TEST_STREAMS", "1000"))
SEED = 20_261_116


class Wire(asyncio.Transport):
    """A connection in memory. A real socket could join the pieces again."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.7", 7), "sockname": ("192.0.2.1", 80)})
        self.written = b""
        self.paused = self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.closed:
            self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


class App:
    """Records each request that it has read to the end. `/early` answers before it reads the body."""

    def __init__(self) -> None:
        self.ran: list[Request] = []
        self.begun = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        if scope["path"].startswith("/early"):
            self.ran.append(_request(scope, b""))
            await self._answer(scope, send)
            return
        body, message = b"", await receive()
        while message["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                self.ran.append(_request(scope, body))
                await self._answer(scope, send)
                return
            message = await receive()

    async def _answer(self, scope: Scope, send: Send) -> None:
        headers = [(b"content-length", b"0"), (b"x-of", scope["path"].encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body"})


def _request(scope: Scope, body: bytes) -> Request:
    headers = [(name, value.strip()) for name, value in scope["headers"]]
    assert len(headers) == len(set(headers))
    return Request(scope["method"], scope["path"], body, frozenset(headers))


class Seen(NamedTuple):
    ran: list[Request]
    answers: list[tuple[int, str]]  # the status, and the path of the request
    closed: bool
    begun: int


async def fed(pieces: list[bytes], chance: random.Random) -> Seen:
    """Send these pieces over one connection, with random pauses, and return the requests and answers."""
    app, wire, state = App(), Wire(), ServerState()
    config = uvicorn.Config(app, http=Connection, ws="none", lifespan="off", log_config=None, access_log=False)
    connection = Connection(config, state, {}, asyncio.get_running_loop())
    connection.connection_made(wire)
    for piece in pieces:
        while wire.paused and not wire.closed:
            await asyncio.sleep(0)
        if wire.closed:
            break
        connection.data_received(piece)
        for _ in range(chance.choice([0, 0, 1, 5])):
            await asyncio.sleep(0)
    while state.tasks and not all(task.done() for task in state.tasks):
        before = len(wire.written), app.begun, len(app.ran)
        for _ in range(10):
            await asyncio.sleep(0)
        if before == (len(wire.written), app.begun, len(app.ran)):
            break  # the server waits for more bytes
    closed = wire.closed
    connection.connection_lost(None)
    await asyncio.gather(*state.tasks)
    return Seen(app.ran, _answers(wire.written), closed, app.begun)


def _answers(written: bytes) -> list[tuple[int, str]]:
    found = []
    while written:
        head, _, written = written.partition(b"\r\n\r\n")
        headers = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        written = written[int(headers.get(b"content-length", b"0")) :]
        if not head.startswith(b"HTTP/1.1 100 "):
            found.append((int(head.split(b" ")[1]), headers.get(b"x-of", b"").decode()))
    return found


def _shown(requests: list[Request]) -> list[Request]:
    return [one._replace(body=b"") if one.path.startswith("/early") else one for one in requests]


@pytest.mark.timeout(60 + STREAMS // 50)
async def test_a_stream_holds_the_same_requests_however_it_is_cut() -> None:
    chance = random.Random(SEED)
    for number in range(STREAMS):
        made = stream(chance)
        wanted = _shown(made.requests)
        answers = [(200, one.path) for one in wanted] + [(400, "")] * made.refused
        for pieces in ([made.sent], cut(chance, made.sent)):
            async with asyncio.timeout(60):
                seen = await fed(pieces, chance)
            told = f"stream {number}: {pieces}"
            assert seen.ran == wanted, told
            assert seen.answers == answers, told
            assert seen.closed == made.ends, told
            assert seen.begun <= len(wanted) + made.half, told


@pytest.mark.timeout(60 + STREAMS // 50)
async def test_a_stream_with_faults_is_read_the_same_however_it_is_cut() -> None:
    chance = random.Random(SEED)
    for number in range(STREAMS // 2):
        # An early answer is sent before the server can know that the body is malformed, so `/early` is left out here.
        sent = marred(chance, stream(chance).sent).replace(b"/early", b"/later")
        pieces = cut(chance, sent)
        async with asyncio.timeout(60):
            whole, parts = await fed([sent], chance), await fed(pieces, chance)
        assert whole[:3] == parts[:3], f"stream {number}: {pieces}"


@pytest.mark.parametrize("sent", [*BROKEN.values(), *BROKEN_BODIES.values()], ids=[*BROKEN, *BROKEN_BODIES])
async def test_what_is_no_request_is_refused_and_nothing_behind_it_is_run(sent: bytes) -> None:
    """The stream is split at every position. The malformed request comes first, or after a good one."""
    chance = random.Random(SEED)
    good = b"POST /late/1 HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc"
    behind = b"DELETE /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"
    for before, ran in ((b"", list[tuple[str, str, bytes]]()), (good, [("POST", "/late/1", b"abc")])):
        whole = before + sent + behind
        for place in range(len(whole)):
            seen = await fed([whole[:place], whole[place:]], chance)
            assert [one[:3] for one in seen.ran] == ran, place
            assert [status for status, _ in seen.answers] == [200] * len(ran) + [400], place
            assert seen.closed


async def test_every_listener_refuses_malformed_requests(tmp_path: Path) -> None:
    ports = [int(free_port()), int(free_port())]
    cli = Cli({"HOOKLINE_PORT": str(ports[0]), "HOOKLINE_METRICS_PORT": str(ports[1])}, str(tmp_path))
    async with cli.running("serve", "--role", "api", "--json") as running:
        await running.json_line()
        for port in ports:
            for sent in (BROKEN["no Host"], BROKEN["two Hosts"], BROKEN["length and encoding"]):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent + b"GET /health/live HTTP/1.1\r\nhost: a\r\n\r\n")
                answer = await reader.read()
                writer.close()
                assert answer.startswith(b"HTTP/1.1 400 ")
                assert answer.count(b"HTTP/1.1 ") == 1
                assert b'"code":"bad_request"' in answer


async def test_http_1_0_needs_no_host() -> None:
    seen = await fed([b"GET /late/0 HTTP/1.0\r\n\r\n"], random.Random(SEED))
    assert (seen.answers, seen.closed) == ([(200, "/late/0")], True)


async def test_http_1_0_is_not_told_to_continue() -> None:
    """An HTTP/1.0 client would mistake "100 Continue" for the answer."""
    head = b"POST / HTTP/1.0\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\nabc"
    for sent, told in ((head, 0), (head.replace(b"1.0", b"1.1"), 1)):
        wire, state = Wire(), ServerState()
        config = uvicorn.Config(App(), http=Connection, ws="none", lifespan="off", log_config=None, access_log=False)
        connection = Connection(config, state, {}, asyncio.get_running_loop())
        connection.connection_made(wire)
        connection.data_received(sent)
        await asyncio.gather(*state.tasks)
        connection.connection_lost(None)
        assert wire.written.count(b"HTTP/1.1 100 ") == told
        assert wire.written.count(b"HTTP/1.1 200 ") == 1


async def test_nothing_is_read_while_requests_wait() -> None:
    """If the server read on, each answer would let in a whole buffer of further requests."""
    wire, paused = Wire(), list[bool]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        paused.append(wire.paused)
        await App()._answer(scope, send)

    state = ServerState()
    config = uvicorn.Config(app, http=Connection, ws="none", lifespan="off", log_config=None, access_log=False)
    connection = Connection(config, state, {}, asyncio.get_running_loop())
    connection.connection_made(wire)
    connection.data_received(b"GET /late HTTP/1.1\r\nhost: a\r\n\r\n" * 4)
    while state.tasks:
        await asyncio.gather(*state.tasks)
    connection.connection_lost(None)
    assert paused == [True, True, True, False]


async def test_endless_trailers_are_refused() -> None:
    """The server does not store endless trailers, nor endless blank lines before a request."""
    chunked = b"POST /late/0 HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: "
    for first, more in ((chunked, b"y" * 8192), (b"\r\n", b"\r\n" * 4096), (b"GET /", b"a" * 8192)):
        seen = await fed([first, *[more] * 10], random.Random(SEED))
        assert ([status for status, _ in seen.answers], seen.closed) == ([431], True)
