"""A real HTTP/1.1 receiver on loopback whose behaviour can change while it runs. It keeps its requests in order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from tests.support.threaded import PATIENCE, ThreadedServer


class Received(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    at: float  # monotonic time at which the request was complete
    connection: int  # number of the connection: 1, 2, 3 ... in the order of accepting


class Behaviour(Struct, frozen=True, kw_only=True):
    """The response to a request. If several of endless, raw, cut and drip are set, the first one in this order
    counts."""

    status: int = 200
    body: bytes = b"ok"
    headers: dict[str, str] = {}
    first: bytes = b""  # bytes to send before anything else
    delay: float = 0.0  # seconds to wait before the response
    answer_when: threading.Event | None = None  # nothing is sent before this event is set
    hang: bool = False  # never answer
    # send a TCP reset: "before" the body was read, or "after" the whole request
    reset: Literal["", "before", "after"] = ""
    close: bool = False  # close without a response
    close_after: bool = False  # close the connection after the response without announcing it
    cut: int | None = None  # announce the whole body, send only this many bytes of it, then close
    drip: float | None = None  # seconds between two bytes of the body
    raw: bytes | None = None  # send these bytes instead of a response, then close
    endless: bytes | None = None  # send these bytes without end


OK = Behaviour()
Choose = Callable[[Received], Behaviour]


class Receiver(ThreadedServer):
    """An HTTP server that runs during a block: `with Receiver() as receiver:`."""

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        super().__init__("receiver", host=host, port=port, tls=tls)
        self.requests: list[Received] = []
        self.connections = 0
        self.heads = 0  # number of requests whose head was read, complete or not
        self._behaviours: dict[str | None, Behaviour | Choose] = {None: OK}
        self._news = threading.Condition()

    # ── for tests ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    def behave(self, behaviour: Behaviour | Choose, path: str | None = None) -> None:
        """Set the behaviour from now on, for one path or for all paths without their own. A function decides per
        request."""
        self._behaviours[path] = behaviour

    def wait_for(self, count: int, timeout: float = PATIENCE) -> list[Received]:
        """Block until `count` requests have arrived in all."""
        with self._news:
            if not self._news.wait_for(lambda: len(self.requests) >= count, timeout):
                raise TimeoutError(f"{len(self.requests)} of {count} requests arrived in {timeout} s")
            return list(self.requests)

    async def arrived(self, count: int, timeout: float = PATIENCE) -> list[Received]:
        return await asyncio.to_thread(self.wait_for, count, timeout)

    def wait_for_heads(self, count: int, timeout: float = PATIENCE) -> None:
        with self._news:
            if not self._news.wait_for(lambda: self.heads >= count, timeout):
                raise TimeoutError(f"{self.heads} of {count} heads arrived in {timeout} s")

    # ── the receiver's loop ───────────────────────────────────────────────────────────────────────────────────────

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        while await self._exchange(reader, writer, number):
            pass

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        """Read one request and answer it. Return whether the connection stays open."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, headers = _parse(head)
        chosen = self._behaviours.get(path, self._behaviours[None])
        self._tell(lambda: setattr(self, "heads", self.heads + 1))
        if isinstance(chosen, Behaviour) and chosen.reset == "before":
            return _reset(writer)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        received = Received(
            method=method, path=path, headers=headers, body=body, at=time.monotonic(), connection=number
        )
        self._tell(lambda: self.requests.append(received))
        return await _answer(chosen if isinstance(chosen, Behaviour) else chosen(received), writer)

    def _tell(self, change: Callable[[], None]) -> None:
        with self._news:
            change()
            self._news.notify_all()


async def _answer(behaviour: Behaviour, writer: asyncio.StreamWriter) -> bool:
    writer.write(behaviour.first)
    if behaviour.delay:
        await asyncio.sleep(behaviour.delay)
    while behaviour.answer_when is not None and not behaviour.answer_when.is_set():
        await asyncio.sleep(0.01)
    if behaviour.hang:
        await asyncio.Event().wait()
    if behaviour.reset:
        return _reset(writer)
    if behaviour.close:
        return False
    if behaviour.endless is not None:
        while True:
            writer.write(behaviour.endless)
            await writer.drain()
            await asyncio.sleep(0)
    if behaviour.raw is not None:
        await _send_and_drain(writer, behaviour.raw)
        return False
    head, body = _head(behaviour), behaviour.body
    if behaviour.cut is not None:
        await _send_and_drain(writer, head + body[: behaviour.cut])
        return False
    if behaviour.drip is not None:
        await _drip(writer, head, body, behaviour.drip)
        return True
    if behaviour.close_after:
        await _send_and_drain(writer, head + body)
        return False
    writer.write(head + body)
    await writer.drain()
    return True


async def _send_and_drain(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send all data and close the connection."""
    writer.write(data)
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


async def _drip(writer: asyncio.StreamWriter, head: bytes, body: bytes, pause: float) -> None:
    writer.write(head)
    for byte in body:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(pause)


def _reset(writer: asyncio.StreamWriter) -> bool:
    """Close with a TCP reset (RST) instead of a FIN."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


def _head(behaviour: Behaviour) -> bytes:
    names = {name.lower() for name in behaviour.headers}
    lines = [f"HTTP/1.1 {behaviour.status} Said", *(f"{name}: {value}" for name, value in behaviour.headers.items())]
    if not names & {"content-length", "transfer-encoding"}:
        lines.append(f"content-length: {len(behaviour.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {}
    for line in rest:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return method, path, headers
