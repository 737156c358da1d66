"""Publishers: over the API with a minimal HTTP client, and through an outbox. They publish at a rate or at full speed."""

from __future__ import annotations

import asyncio
import itertools
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import asyncpg
from msgspec import Struct

from hookline import clock, outbox
from hookline.cli.bench.ground import Server
from hookline.cli.bench.model import EVENT_TYPE, BenchFailed
from hookline.model.catalogue import Application
from hookline.outbox import setup

LANES = 64  # connections of a publisher
PATIENCE = 30.0  # maximum seconds for one request

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NOTE = "x" * 400

Publish = Callable[[int], Awaitable[None]]  # publishes the message with this number, and returns once it is durable


def payload(number: int) -> bytes:
    return b'{"n":%d,"type":"order.paid","data":{"order":"o_8271","amount":4200,"note":"%s"}}' % (
        number,
        _NOTE.encode(),
    )


def message(number: int) -> bytes:
    return b'{"eventType":"%s","payload":%s}' % (EVENT_TYPE.encode(), payload(number))


def batch(size: int) -> Callable[[int], bytes]:
    """Return the function that makes the body of a request with this many messages."""
    return lambda number: b'{"messages":[%s]}' % b",".join([message(number)] * size)


# ── rates ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def at_rate(publish: Publish, numbers: range, rate: float) -> dict[int, float]:
    """Publish at a fixed rate, even if earlier calls have not returned. Return the time at which each was due."""
    start = clock.monotonic()
    due = {number: start + at / rate for at, number in enumerate(numbers)}
    async with asyncio.TaskGroup() as calls:
        for number, at in due.items():
            await asyncio.sleep(max(0.0, at - clock.monotonic()))
            calls.create_task(_call(publish, number))
    return due


async def _call(publish: Publish, number: int) -> None:
    await publish(number)


async def flat_out(publish: Publish, lanes: int, seconds: float, first: int = 0) -> int:
    """Publish as fast as possible: each lane begins its next call when the last one returned. Return the number of
    calls."""
    numbers, end = itertools.count(first), clock.monotonic() + seconds

    async def lane() -> int:
        calls = 0
        while clock.monotonic() < end:
            await publish(next(numbers))
            calls += 1
        return calls

    return sum(await asyncio.gather(*(lane() for _ in range(lanes))))


# ── the API ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _Connection(asyncio.Protocol):
    """A persistent connection with one request at a time."""

    def __init__(self) -> None:
        self._rest = b""
        self._answered: asyncio.Future[None] | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._finish(BenchFailed(f"the server closed a connection: {exc}"))

    async def post(self, request: bytes) -> None:
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._answered

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        end = data.find(b"\r\n\r\n")
        found = _LENGTH.search(data, 0, end + 2)
        if end < 0 or len(data) < end + 4 + (int(found[1]) if found else 0):
            self._rest = data
            return
        self._rest = b""
        refused = not data.startswith(b"HTTP/1.1 202")
        self._finish(BenchFailed(f"the server did not answer 202: {data[:300]!r}") if refused else None)

    def _finish(self, error: BenchFailed | None) -> None:
        if self._answered is None or self._answered.done():
            return
        if error is None:
            self._answered.set_result(None)
        else:
            self._answered.set_exception(error)

    def abort(self) -> None:
        self._transport.abort()


class ApiPublisher(Struct):
    """Posts each message to the next path, on a connection that is free. Each request has its own idempotency key, as
    requests of the SDKs do."""

    server: Server
    paths: Sequence[str]
    body: Callable[[int], bytes]
    idle: asyncio.LifoQueue[_Connection]

    async def publish(self, number: int) -> None:
        connection = await self.idle.get()
        if connection.closed:  # the server closes connections that were not used for some seconds
            connection = await _connect(self.server)
        try:
            await connection.post(self._request(number))
        finally:
            self.idle.put_nowait(connection)

    def _request(self, number: int) -> bytes:
        body, path = self.body(number), self.paths[number % len(self.paths)]
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {self.server.token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\nidempotency-key: bench-{number}\r\n\r\n"
        )
        return head.encode() + body


@asynccontextmanager
async def api_publisher(
    server: Server, paths: Sequence[str], body: Callable[[int], bytes] = message, lanes: int = LANES
) -> AsyncIterator[ApiPublisher]:
    publisher = ApiPublisher(server, paths, body, asyncio.LifoQueue())
    for _ in range(lanes):
        publisher.idle.put_nowait(await _connect(server))
    try:
        yield publisher
    finally:
        while not publisher.idle.empty():
            publisher.idle.get_nowait().abort()


async def _connect(server: Server) -> _Connection:
    return (await asyncio.get_running_loop().create_connection(_Connection, "127.0.0.1", server.port))[1]


def message_paths(apps: Sequence[Application], *, batches: bool = False) -> list[str]:
    return [f"/api/v1/app/{app.id}/msg{'/batch' if batches else ''}" for app in apps]


# ── outboxes ──────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def sqlite_outbox(file: Path, apps: Sequence[Application]) -> AsyncIterator[Publish]:
    """Publish in transactions of the SQLite file of an application."""
    with closing(sqlite3.connect(file, isolation_level=None)) as shop:
        shop.executescript("PRAGMA journal_mode = WAL; CREATE TABLE orders (id integer);" + setup.sql("sqlite"))

        async def publish(number: int) -> None:
            shop.execute("BEGIN IMMEDIATE")
            shop.execute("INSERT INTO orders VALUES (?)", (number,))
            outbox.publish(shop, apps[number % len(apps)].id, EVENT_TYPE, _data(number))
            shop.execute("COMMIT")

        yield publish


@asynccontextmanager
async def postgres_outbox(url: str, apps: Sequence[Application], sessions: int) -> AsyncIterator[Publish]:
    """Publish in transactions of the database that Hookline uses too."""
    pool = await asyncpg.create_pool(url, min_size=sessions, max_size=sessions)
    await pool.execute("CREATE TABLE hookline.bench_order (id bigint)")

    async def publish(number: int) -> None:
        async with pool.acquire() as shop, shop.transaction():
            await shop.execute("INSERT INTO hookline.bench_order VALUES ($1)", number)
            await outbox.publish_async(shop, apps[number % len(apps)].id, EVENT_TYPE, _data(number))

    try:
        yield publish
    finally:
        pool.terminate()


def _data(number: int) -> dict[str, Any]:
    return {"n": number, "type": EVENT_TYPE, "data": {"order": "o_8271", "amount": 4200, "note": _NOTE}}
