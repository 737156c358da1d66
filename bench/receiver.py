"""A minimal, fast HTTP/1.1 receiver: it reads requests by content-length, answers 200, and counts them.

It runs in its own process and prints its port. `GET /count` and `BenchReceiver.count` return the number of POST requests.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import subprocess
import sys
from types import TracebackType
from typing import Self

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class _Connection(asyncio.Protocol):
    arrived = 0  # number of POST requests on all connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        answers = []
        while (end := data.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(data, 0, end + 2)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(data) < whole:
                break
            answers.append(self._answer(data))
            data = data[whole:]
        self._rest = data
        if answers:
            self._transport.write(b"".join(answers))  # type: ignore[attr-defined]

    def _answer(self, request: bytes) -> bytes:
        if request.startswith(b"POST"):
            _Connection.arrived += 1
            return _ANSWER
        count = str(_Connection.arrived).encode()
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(count), count)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Standard input closes when the parent process ends, and then this process ends too.
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


class BenchReceiver:
    """Use as a context manager: it starts the receiver in its own process."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def count(self) -> int:
        """Number of POST requests that have arrived."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/count")
            return int(connection.getresponse().read())
        finally:
            connection.close()


def main() -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve())
    else:
        uvloop.run(_serve())


if __name__ == "__main__":
    main()
