"""A sender that sends copies of one event at a steady rate over loopback, however slowly the receiver answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

LONGEST_IDLE = 2.0  # seconds after which an idle connection is not used again

Signed = Callable[[], Mapping[str, str]]  # the headers of the next attempt


class Answer(Struct, frozen=True, kw_only=True):
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes


class Copies(Struct, frozen=True, kw_only=True):
    answers: list[Answer]
    took: float  # seconds, from the first request to the last answer

    def statuses(self) -> dict[int, int]:
        found = sorted(answer.status for answer in self.answers)
        return {status: found.count(status) for status in found}


async def send_copies(
    url: str, body: bytes, signed: Signed, *, rate: int, count: int, answered: Callable[[int], None]
) -> Copies:
    """Send each copy at its own time, without waiting for earlier answers. `answered` is called with the number of
    answers so far."""
    line = _ConnectionPool(url)
    answers: list[Answer] = []

    async def send() -> None:
        answers.append(await line.post(body, signed()))
        answered(len(answers))

    started = time.monotonic()
    sent = []
    for number in range(count):
        await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
        sent.append(asyncio.create_task(send()))
    try:
        await asyncio.gather(*sent)
    finally:
        line.close()
    return Copies(answers=answers, took=time.monotonic() - started)


class _ConnectionPool:
    """A pool of kept connections to one address: as many as requests are open at once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path or "/"
        self._idle: list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        reader, writer = self._spare() or await self._open()
        writer.write(self._head(body, headers) + body)
        answer = await _read(reader)
        self._idle.append((time.monotonic(), reader, writer))
        return answer

    def _spare(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Return the connection that was used last, because servers close connections that are idle for some seconds."""
        if not self._idle:
            return None
        since, reader, writer = self._idle.pop()
        return (reader, writer) if time.monotonic() - since < LONGEST_IDLE and not reader.at_eof() else None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        self._writers.append(writer)
        return reader, writer

    def _head(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        given = {"host": f"{self._host}:{self._port}", "content-length": str(len(body)), **headers}
        lines = [f"POST {self._path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rest = head.rstrip().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    body = await reader.readexactly(int(headers["content-length"]))
    return Answer(status=int(first.split(" ")[1]), headers=headers, body=body)
