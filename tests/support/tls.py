"""TLS in front of a server that speaks HTTP, as a proxy ends it in a deployment: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from types import TracebackType
from typing import Self


class TlsFront:
    """`with TlsFront(context) as front: front.port`; it runs in a thread with a loop of its own. `to`: the port behind it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.port = 0
        self.to = 0
        self._context = context
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="tls-front", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the front did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self._carry(reader, writer)
        self._tasks.discard(task)
        writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
