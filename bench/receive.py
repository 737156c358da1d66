"""The cost of the idempotency middleware with each store: the median time of a call, without a server.

first    a request with a new key; its answer is stored, durably on SQLite and PostgreSQL
replay   a request whose key already has an answer
no key   a request without a key
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import secrets
import statistics
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import redis
import redis.asyncio
from rich.console import Console
from rich.table import Table

from bench.ground import BODY, database
from hookline.clock import monotonic
from hookline.receive.idempotency import AsyncKeyStore, KeyStore, asgi, wsgi
from hookline.receive.stores.postgres import AsyncPostgresKeys, PostgresKeys
from hookline.receive.stores.redis import AsyncRedisKeys, RedisKeys
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys
from tests.support.redis import RedisServer

WARM = 50  # calls before the measurement starts
ANSWER = b'{"thanks": true}'

Call = Callable[[str | None], Awaitable[None]]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.receive", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1500, help="calls of each kind (1500)")
    calls = parser.parse_args().calls
    busy = os.getloadavg()[0]
    table = Table("", "first", "replay", "no key", title="microseconds of a call")
    for name, medians in asyncio.run(measured(calls)):
        table.add_row(name, *(f"{median:,.0f}" for median in medians))
    console = Console()
    console.print(f"load of the machine before: {busy:.1f}; {os.cpu_count()} processors")
    console.print(table)


async def measured(calls: int) -> list[tuple[str, list[float]]]:
    async with stores() as (sync_stores, async_stores):
        applications: dict[str, Call] = {"ASGI, bare": asgi_call(asgi_handler)}
        for name, store in async_stores.items():
            applications[f"ASGI, {name}"] = asgi_call(asgi.IdempotencyMiddleware(asgi_handler, store))
        applications["WSGI, bare"] = wsgi_call(wsgi_handler)
        for name, sync_store in sync_stores.items():
            applications[f"WSGI, {name}"] = wsgi_call(wsgi.IdempotencyMiddleware(wsgi_handler, sync_store))
        return [(name, await _three(call, calls)) for name, call in applications.items()]


async def _three(call: Call, calls: int) -> list[float]:
    one = secrets.token_hex(8)
    new: list[str | None] = [secrets.token_hex(8) for _ in range(calls + WARM)]
    return [await _median(call, keys) for keys in (new, [one] * (calls + WARM), [None] * (calls + WARM))]


async def _median(call: Call, keys: Iterable[str | None]) -> float:
    spent = []
    for key in keys:
        start = monotonic()
        await call(key)
        spent.append((monotonic() - start) * 1e6)
    return statistics.median(spent[WARM:])


@asynccontextmanager
async def stores() -> AsyncIterator[tuple[dict[str, KeyStore], dict[str, AsyncKeyStore]]]:
    server = RedisServer()
    server.start()
    try:
        with tempfile.TemporaryDirectory(prefix="hookline-bench-") as home, database("postgres") as url:
            sqlite, postgres = SqliteKeys(f"{home}/keys.db"), PostgresKeys(lambda: psycopg.connect(url))
            async_sqlite = AsyncSqliteKeys(f"{home}/async.db")
            postgres.create_table()
            async with asyncpg.create_pool(url, min_size=1, max_size=4) as pool:
                clients = redis.Redis.from_url(server.url), redis.asyncio.Redis.from_url(server.url)
                yield (
                    {"SQLite": sqlite, "PostgreSQL": postgres, "Redis": RedisKeys(clients[0])},
                    {
                        "SQLite": async_sqlite,
                        "PostgreSQL": AsyncPostgresKeys(pool),
                        "Redis": AsyncRedisKeys(clients[1]),
                    },
                )
                clients[0].close()
                await clients[1].aclose()
            sqlite.close()
            postgres.close()
            await async_sqlite.aclose()
    finally:
        server.close()


# ── empty applications and their callers ──────────────────────────────────────────────────────────────────────────


async def asgi_handler(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


def asgi_call(app: Any) -> Call:
    async def receive() -> Any:
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def call(key: str | None) -> None:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"content-type", b"application/json")]
        if key is not None:
            headers.append((b"idempotency-key", key.encode()))
        await app(
            {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}, receive, send
        )
        assert sent[0]["status"] == 200

    return call


def wsgi_handler(environ: Any, start_response: Any) -> list[bytes]:
    environ["wsgi.input"].read(len(BODY))
    start_response("200 OK", [("content-type", "application/json"), ("content-length", str(len(ANSWER)))])
    return [ANSWER]


def wsgi_call(app: Any) -> Call:
    async def call(key: str | None) -> None:
        statuses: list[str] = []
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(BODY)),
            "wsgi.input": io.BytesIO(BODY),
            "wsgi.url_scheme": "http",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
        }
        if key is not None:
            environ["HTTP_IDEMPOTENCY_KEY"] = key
        chunks = app(environ, lambda status, *_: statuses.append(status))
        assert b"".join(chunks) == ANSWER
        if hasattr(chunks, "close"):
            chunks.close()
        assert statuses == ["200 OK"]

    return call


if __name__ == "__main__":
    main()
