"""A TLS proxy in front of an HTTP server, as in a deployment. It passes the bytes on unchanged."""

from __future__ import annotations

import asyncio
import ssl

from tests.support.threaded import ThreadedServer


class TlsProxy(ThreadedServer):
    """A proxy that runs during a block: `with TlsProxy(context) as proxy: proxy.port`. `to` is the port of the server
    behind it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__("TLS proxy", tls=context)
        self.to = 0

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy bytes in both directions until one side closes."""
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self.to)
        ways = [asyncio.create_task(_pipe(reader, behind_writer)), asyncio.create_task(_pipe(behind_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            behind_writer.transport.abort()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
