"""A proxy in front of a server, with or without TLS. It passes the bytes on unchanged, unless a test changes them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.support.threaded import ThreadedServer

Pump = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes in one direction until the sending side closes."""
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


async def relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    port: int,
    *,
    there: Pump = pump,
    back: Pump = pump,
) -> None:
    """Connect a client with a server until one of the two directions ends. Then close both connections."""
    behind_reader, behind_writer = await asyncio.open_connection(host, port)
    ways = [asyncio.ensure_future(there(reader, behind_writer)), asyncio.ensure_future(back(behind_reader, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (behind_writer, writer):
            end.transport.abort()


@asynccontextmanager
async def in_front_of(
    url: str, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter, str, int], Awaitable[None]]
) -> AsyncIterator[str]:
    """Yield the URL of a server with the port of a proxy. `serve` gets each connection, and the server's address."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    host, port = parts.hostname, parts.port
    server = await asyncio.start_server(lambda reader, writer: serve(reader, writer, host, port), "127.0.0.1", 0)
    try:
        yield url.replace(f":{port}/", f":{server.sockets[0].getsockname()[1]}/")
    finally:
        server.close()
        await server.wait_closed()


class Proxy(ThreadedServer):
    """A proxy that runs during a block: `with Proxy(context) as proxy: proxy.port`. `to` is the port of the server
    behind it."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__("proxy", tls=context)
        self.to = 0

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, "127.0.0.1", self.to)
