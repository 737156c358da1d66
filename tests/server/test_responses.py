"""How responses go to the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from hookline.server import http, sockets

PATIENCE = 30.0


@asynccontextmanager
async def client_of(app: ASGIApp) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    listener, stop = sockets.bind("127.0.0.1", 0), asyncio.Event()
    serving = asyncio.create_task(http.serve(app, listener, stop=stop, grace=1))
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        async with asyncio.timeout(PATIENCE):
            yield reader, writer
    finally:
        writer.close()
        stop.set()
        await serving


async def start(send: Send, length: int) -> None:
    headers = [(b"content-length", b"%d" % length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def test_head_and_body_arrive_in_one_packet() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send, 2)
        await send({"type": "http.response.body", "body": b"ok"})

    async with client_of(app) as (reader, writer):
        for _ in range(20):
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            response = await reader.read(65536)
            assert response.startswith(b"HTTP/1.1 200 OK\r\n")
            assert response.endswith(b"\r\n\r\nok")


async def test_a_head_whose_body_comes_later_is_sent_at_once() -> None:
    """A live page waits for the head of its stream of events."""
    seen = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send, 4)
        await seen.wait()
        await send({"type": "http.response.body", "body": b"la", "more_body": True})
        await send({"type": "http.response.body", "body": b"te"})

    async with client_of(app) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        seen.set()
        assert await reader.readexactly(4) == b"late"


async def test_the_end_of_a_connection_does_not_cut_off_the_response() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send, 0)
        await send({"type": "http.response.body"})

    async with client_of(app) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        response = await reader.read()
        assert response.startswith(b"HTTP/1.1 200 OK\r\n")
        assert response.endswith(b"connection: close\r\n\r\n")


async def test_a_client_that_expects_100_continue_gets_it_before_the_response() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        await start(send, len(message["body"]))
        await send({"type": "http.response.body", "body": message["body"]})

    async with client_of(app) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await reader.readexactly(3) == b"abc"
