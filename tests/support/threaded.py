"""A server on loopback in a thread with its own event loop, so that sync and async tests can use it."""

from __future__ import annotations

import asyncio
import ssl
import threading
from types import TracebackType
from typing import Self

PATIENCE = 60.0  # maximum seconds that a test waits; long, because the machine may be busy
MAX_HEAD = 1 << 20


class ThreadedServer:
    """A server that listens inside its `with` block. At the end it closes its connections. `_converse` handles one
    connection."""

    def __init__(self, name: str, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.host, self.port = host, port
        self._tls = tls
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(PATIENCE):
            raise RuntimeError(f"the {self._thread.name} did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(
            self._connected, self.host, self.port, ssl=self._tls, limit=MAX_HEAD, backlog=4_096
        )
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
        try:
            await self._converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            pass  # the client disconnected, or the test is over
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one connection. Each kind of server implements this."""
        raise NotImplementedError
