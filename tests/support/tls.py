"""TLS in front of a server that speaks HTTP, as a proxy ends it in a deployment: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import ssl

from tests.support.threaded import ThreadedServer


class TlsProxy(ThreadedServer):
    """`with TlsProxy(context) as proxy: proxy.port`. `to`: the port behind it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__("TLS proxy", tls=context)
        self.to = 0

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Both ways, until either side has said all."""
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
