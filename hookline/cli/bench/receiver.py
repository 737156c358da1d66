"""A fast HTTP/1.1 receiver in its own process. It counts requests, checks signatures, and records when each arrived.

The first segment of a request's path chooses the answer: `ok`, `close` (ends the connection after the answer), `fail`
(status 500), `hang` (no answer) or `plain` (as `ok`, but no signature is checked). The receiver's clock is the
monotonic clock of the machine, so its times can be compared with those of the parent process.

The parent process writes settings and then commands to standard input. The receiver ends when this input ends.
"""

from __future__ import annotations

import asyncio
import gc
import re
import ssl
import sys
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import msgspec
import uvloop
from msgspec import Struct

from hookline import clock, signing
from hookline.cli.bench.model import BenchFailed
from hookline.errors import SignatureError
from hookline.model.endpoints import Scheme, Secret

CHECKED = 16  # the signature of one request in this many is checked
PATIENCE = 30.0  # seconds without any request until the run fails
POLL = 0.02  # another process receives the requests, so there is no event to wait for
COMMAND = (sys.executable, "-P", "-m", "hookline.cli.bench.receiver")

T = TypeVar("T")

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NUMBER = re.compile(rb'"n": ?(\d+)')
_ANSWERS = {
    b"o": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    b"p": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    b"c": b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
    b"f": b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
    b"h": b"",
}
_COUNTED = (b"o", b"p", b"c")


class Settings(Struct, frozen=True, kw_only=True):
    secret: str
    certificate: str | None = None  # PEM file with key and certificate; None: no TLS


class Counts(Struct, frozen=True, kw_only=True):
    arrived: int = 0  # requests that were answered with 200
    verified: int = 0
    invalid: int = 0  # signatures that are wrong


class Arrivals(Struct, frozen=True, kw_only=True):
    """The number in each payload, and the time of its arrival."""

    numbers: list[int]
    times: list[float]

    def first(self) -> dict[int, float]:
        """Return the time of the first arrival of each number."""
        found: dict[int, float] = {}
        for number, at in zip(self.numbers, self.times, strict=True):
            found.setdefault(number, at)
        return found


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Memory:
    def __init__(self, settings: Settings) -> None:
        self._secrets = [Secret(key=settings.secret)]
        self.reset()

    def reset(self) -> None:
        self.numbers, self.times = array("q"), array("d")
        self.verified = self.invalid = 0

    def add(self, head: bytes, body: bytes, *, check: bool) -> None:
        found = _NUMBER.search(body, 0, 64)
        self.times.append(clock.monotonic())
        self.numbers.append(int(found[1]) if found else -1)
        if check and len(self.times) % CHECKED == 1:
            self._check(head, body)

    def _check(self, head: bytes, body: bytes) -> None:
        lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:])
        headers = {name.lower(): value for name, _, value in lines}
        try:
            signing.verify(Scheme.STANDARD, self._secrets, headers, body, clock.wall())
            self.verified += 1
        except SignatureError:
            self.invalid += 1

    def reply(self, command: str) -> object:
        if command == "reset":
            self.reset()
        if command == "arrivals":
            return Arrivals(numbers=list(self.numbers), times=list(self.times))
        return Counts(arrived=len(self.times), verified=self.verified, invalid=self.invalid)


class _Connection(asyncio.Protocol):
    def __init__(self, memory: _Memory) -> None:
        self._memory = memory
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        answers = []
        while (end := data.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(data, 0, end + 2)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(data) < whole:
                break
            answers.append(self._answer(data[:end], data[end + 4 : whole]))
            data = data[whole:]
        self._rest = data
        if answers:
            self._transport.write(b"".join(answers))
            if b"close" in answers[-1]:
                self._transport.close()

    def _answer(self, head: bytes, body: bytes) -> bytes:
        kind = head[6:7]  # `POST /ok/7`
        if kind in _COUNTED:
            self._memory.add(head, body, check=kind != b"p")
        return _ANSWERS[kind]


async def _serve(settings: Settings) -> None:
    memory, loop = _Memory(settings), asyncio.get_running_loop()
    tls = None if settings.certificate is None else _tls(settings.certificate)
    server = await loop.create_server(lambda: _Connection(memory), "127.0.0.1", 0, backlog=4_096, ssl=tls)
    _write(server.sockets[0].getsockname()[1])
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        _write(memory.reply(line.decode().strip()))
    server.close()


def _tls(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.num_tickets = 0  # no resumed sessions: each new connection makes a whole handshake
    return context


def _write(value: object) -> None:
    data = msgspec.msgpack.encode(value)
    sys.stdout.buffer.write(len(data).to_bytes(4, "big") + data)
    sys.stdout.buffer.flush()


def main() -> None:
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=Settings)
    gc.disable()  # its pauses would be measured as latency of Hookline
    uvloop.run(_serve(settings))


# ── the parent process ────────────────────────────────────────────────────────────────────────────────────────────


class Receiver:
    """The receiver's process, as the parent process sees it."""

    def __init__(self, process: asyncio.subprocess.Process, scheme: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._scheme = scheme
        self.port = 0

    def url(self, path: str) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/{path}"

    async def begin(self, settings: Settings) -> None:
        self._stdin.write(msgspec.json.encode(settings) + b"\n")
        self.port = msgspec.msgpack.decode(await self._read(), type=int)

    async def reset(self) -> None:
        await self._ask("reset", Counts)

    async def arrivals(self) -> Arrivals:
        return await self._ask("arrivals", Arrivals)

    async def until(self, count: int) -> Counts:
        """Wait until this many requests have arrived. Raise `BenchFailed` if no more arrive, or if a signature is
        wrong."""
        seen, latest = -1, clock.monotonic()
        while True:
            counts = await self._ask("counts", Counts)
            if counts.invalid:
                raise BenchFailed(f"{counts.invalid} signatures are wrong")
            if counts.arrived >= count:
                return counts
            if counts.arrived > seen:
                seen, latest = counts.arrived, clock.monotonic()
            if clock.monotonic() > latest + PATIENCE:
                raise BenchFailed(f"{seen:,} of {count:,} requests arrived")
            await asyncio.sleep(POLL)

    async def _ask(self, command: str, kind: type[T]) -> T:
        self._stdin.write(command.encode() + b"\n")
        return msgspec.msgpack.decode(await self._read(), type=kind)

    async def _read(self) -> bytes:
        try:
            size = await self._stdout.readexactly(4)
            return await self._stdout.readexactly(int.from_bytes(size, "big"))
        except asyncio.IncompleteReadError:
            raise BenchFailed("the receiver ended") from None


@asynccontextmanager
async def receiving(settings: Settings) -> AsyncIterator[Receiver]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*COMMAND, stdin=pipe, stdout=pipe, start_new_session=True)
    try:
        receiver = Receiver(process, "http" if settings.certificate is None else "https")
        await receiver.begin(settings)
        yield receiver
    finally:
        process.kill()
        await process.wait()


if __name__ == "__main__":
    main()
