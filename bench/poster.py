"""A minimal, fast HTTP/1.1 client: one request at a time on each of its persistent connections.

Every request has its own idempotency key, as requests of the SDKs do.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from typing import cast

from msgspec import Struct

from hookline.clock import monotonic

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
PATIENCE = 30.0  # maximum seconds to wait for the last responses

_numbers = itertools.count(1)


class Target(Struct, frozen=True, kw_only=True):
    port: int
    path: str
    token: str
    body: bytes

    def head(self) -> bytes:
        return (
            f"POST {self.path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {self.token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(self.body)}\r\nidempotency-key: "
        ).encode()


class Load(Struct, frozen=True, kw_only=True):
    requests: int
    seconds: float
    waits: list[float]  # duration of each request in seconds

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


class _Connection(asyncio.Protocol):
    def __init__(self, target: Target, start: float, end: float) -> None:
        self._head, self._body = target.head(), target.body
        self._start, self._end = start, end
        self._rest = b""
        self.waits: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        self._sent = monotonic()
        self._transport.write(b"%sbench-%012d\r\n\r\n%s" % (self._head, next(_numbers), self._body))

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        self._rest = data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return
        found = _LENGTH.search(data, 0, end + 2)
        if len(data) < end + 4 + (int(found[1]) if found else 0):
            return
        self._rest = b""
        if not data.startswith(b"HTTP/1.1 202"):
            self._fail(f"the server did not answer 202: {data[:300]!r}")
            return
        self._count()

    def _count(self) -> None:
        now = monotonic()
        if self._start <= self._sent and now <= self._end:
            self.waits.append(now - self._sent)
        if now < self._end:
            self._send()
        elif not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was lost: {exc}")

    def _fail(self, text: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(text))


async def post(target: Target, *, clients: int, seconds: float, warm: float) -> Load:
    """Send as many requests as possible for `seconds`, after a warm-up that is not measured."""
    loop = asyncio.get_running_loop()
    start = monotonic() + warm
    made = [
        await loop.create_connection(lambda: _Connection(target, start, start + seconds), "127.0.0.1", target.port)
        for _ in range(clients)
    ]
    try:
        async with asyncio.timeout(warm + seconds + PATIENCE):
            await asyncio.gather(*(connection.done for _, connection in made))
    finally:
        for transport, _ in made:
            transport.abort()
    waits = [wait for _, connection in made for wait in connection.waits]
    return Load(requests=len(waits), seconds=seconds, waits=waits)
