"""A receiver in its own process that records requests and their times, and whose answers can be configured.

It uses the machine's monotonic clock, so that its times can be compared with those of the parent process.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import http.client
import re
import subprocess
import sys
import time
from collections import Counter
from types import TracebackType
from typing import Any, Self, cast

import msgspec
from msgspec import Struct

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ID = re.compile(rb"\r\nwebhook-id: *([^\r]+)", re.IGNORECASE)
_ATTEMPT = re.compile(rb"\r\nwebhook-attempt: *(\d+)", re.IGNORECASE)
CONTROL = "/~"  # prefix of the paths with which the parent process controls the receiver


class Answer(Struct, frozen=True, kw_only=True):
    """How the receiver answers requests to one part (the first segment of the path)."""

    part: str
    status: int = 200
    delay: float = 0.0  # seconds before the response
    hang: bool = False  # never answer, and keep the connection open
    closes: bool = False  # close the connection after the response, and announce it
    fails_every: int = 0  # answer every nth request with 503, where n is this number; 0: never


class Arrival(Struct, frozen=True, array_like=True):
    part: str
    message_id: str
    at: float  # monotonic time
    status: int  # 0 if the request was never answered
    digest: str  # of the body
    attempt: int  # header webhook-attempt


class Account(Struct, frozen=True, kw_only=True):
    """All requests that the receiver got."""

    arrivals: list[Arrival]
    most: dict[str, int]  # maximum number of requests in flight, by part


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Memory:
    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.arrivals: list[Arrival] = []
        self.seen: Counter[str] = Counter()
        self.flying: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def begin(self, part: str) -> None:
        self.seen[part] += 1
        self.flying[part] += 1
        self.most[part] = max(self.most[part], self.flying[part])

    def account(self) -> Account:
        return Account(arrivals=self.arrivals, most=dict(self.most))


class _Connection(asyncio.Protocol):
    """A persistent connection that handles one request at a time."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory
        self._rest = b""
        self._part: str | None = None  # part of the request in flight

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def data_received(self, data: bytes) -> None:
        self._rest += data
        end = self._rest.find(b"\r\n\r\n")
        if end < 0:
            return
        found = _LENGTH.search(self._rest, 0, end + 2)
        whole = end + 4 + (int(found[1]) if found else 0)
        if len(self._rest) < whole:
            return
        head, body, self._rest = self._rest[: end + 2], self._rest[end + 4 : whole], self._rest[whole:]
        path = head.split(b" ", 2)[1].decode()
        if path.startswith(CONTROL):
            self._transport.write(_response(200, self._control(path, body)))
        else:
            self._webhook(path.split("/")[1], head, body)

    def _webhook(self, part: str, head: bytes, body: bytes) -> None:
        memory = self._memory
        memory.begin(part)
        answer = memory.answers.get(part, Answer(part=part))
        status = 0 if answer.hang else answer.status
        if answer.fails_every and memory.seen[part] % answer.fails_every == 0:
            status = 503
        memory.arrivals.append(_arrival(part, head, body, status))
        self._part = part
        if answer.delay and not answer.hang:
            asyncio.get_running_loop().call_later(answer.delay, self._answer, status, answer.closes)
        elif not answer.hang:
            self._answer(status, answer.closes)

    def _answer(self, status: int, closes: bool) -> None:
        if not self._transport.is_closing():
            self._end()
            self._transport.write(_response(status, b"ok", b"connection: close\r\n" if closes else b""))
            if closes:
                self._transport.close()

    def _end(self) -> None:
        if self._part is not None:
            self._memory.flying[self._part] -= 1
            self._part = None

    def _control(self, path: str, body: bytes) -> bytes:
        memory = self._memory
        match path.removeprefix(CONTROL):
            case "answer":
                answer = msgspec.json.decode(body, type=Answer)
                memory.answers[answer.part] = answer
                return b"{}"
            case "flying":
                return msgspec.json.encode(memory.flying)
            case "count":
                return msgspec.json.encode(memory.seen)
            case _:
                return msgspec.json.encode(memory.account())


def _arrival(part: str, head: bytes, body: bytes, status: int) -> Arrival:
    message, attempt = _ID.search(head), _ATTEMPT.search(head)
    return Arrival(
        part,
        message[1].decode() if message else "",
        time.monotonic(),
        status,
        digest(body),
        int(attempt[1]) if attempt else 0,
    )


def digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=8).hexdigest()


def _response(status: int, body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d Said\r\ncontent-length: %d\r\n%s\r\n%s" % (status, len(body), more, body)


async def _serve() -> None:
    memory = _Memory()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(memory), "127.0.0.1", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Standard input closes when the parent process ends, and then this process ends too.
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


# ── the parent process ────────────────────────────────────────────────────────────────────────────────────────────


class Witness:
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

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def answer(self, answer: Answer) -> None:
        """Set how requests to a part are answered from now on."""
        self._ask("answer", msgspec.json.encode(answer))

    def flying(self, part: str) -> int:
        """Return the number of requests to this part that are not answered yet."""
        found: int = msgspec.json.decode(self._ask("flying")).get(part, 0)
        return found

    def count(self, part: str) -> int:
        """Return the number of requests to this part that have arrived."""
        found: int = msgspec.json.decode(self._ask("count")).get(part, 0)
        return found

    def account(self) -> Account:
        return msgspec.json.decode(self._ask("account"), type=Account)

    def _ask(self, what: str, body: bytes = b"") -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", CONTROL + what, body)
            return connection.getresponse().read()
        finally:
            connection.close()


def main() -> None:
    gc.disable()  # its pauses would be measured as latency of the sender
    runner: Any = asyncio
    try:
        import uvloop
    except ImportError:
        pass
    else:
        runner = uvloop
    runner.run(_serve())


if __name__ == "__main__":
    main()
