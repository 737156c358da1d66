"""An application that receives webhooks with the kit, in a process of its own, so that it can be killed.

    MERCHANT='{"secret": "whsec_...", "keys": "sqlite:///...", ...}' python -m tests.support.merchant PORT

What its handler does is in the ledger, a SQLite file: a row for each step, committed at once. Before its effect, and before its
answer, it waits until the test has opened that gate.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import redis.asyncio
import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hookline.receive import Verifier, inbox
from hookline.receive.idempotency import IdempotencySettings
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from hookline.receive.stores.postgres import AsyncPostgresKeys
from hookline.receive.stores.redis import AsyncRedisKeys
from hookline.receive.stores.sqlite import AsyncSqliteKeys

VARIABLE = "MERCHANT"
PATH = "/hooks"
LEDGER = "CREATE TABLE IF NOT EXISTS step (no integer PRIMARY KEY, name text NOT NULL, event text NOT NULL)"


class Settings(Struct, frozen=True, kw_only=True):
    secret: str
    keys: str  # a URL: sqlite:///, postgresql:// or, for Redis, unix://
    directory: str  # of the ledger and the gates
    lease: float
    inbox: bool = False  # the effect and its key in one transaction


def open_ledger(directory: str | Path) -> sqlite3.Connection:
    """Each statement commits by itself."""
    ledger = sqlite3.connect(Path(directory) / "ledger.db", isolation_level=None, timeout=30)
    ledger.execute("PRAGMA journal_mode = WAL")
    ledger.execute(LEDGER)
    return ledger


def write(ledger: sqlite3.Connection, name: str, event: str) -> None:
    ledger.execute("INSERT INTO step (name, event) VALUES (?, ?)", (name, event))


class Merchant:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def paid(self, request: Request) -> Response:
        event = request.headers["webhook-id"]
        with closing(open_ledger(self._settings.directory)) as ledger:
            write(ledger, "begun", event)
            await self._gate("effect")
            self._effect(ledger, event)
            await self._gate("answer")
        return JSONResponse({"paid": event}, headers={"x-process": str(os.getpid())})

    def _effect(self, ledger: sqlite3.Connection, event: str) -> None:
        if not self._settings.inbox:
            write(ledger, "effect", event)
            return
        ledger.execute("BEGIN IMMEDIATE")
        with inbox.once(ledger, event) as first:
            if first:
                write(ledger, "effect", event)
        ledger.execute("COMMIT")

    async def _gate(self, name: str) -> None:
        while not self._is_open(name):
            await asyncio.sleep(0.01)  # another process opens it

    def _is_open(self, gate: str) -> bool:
        return Path(self._settings.directory, gate).exists()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Any]:
    """The store of keys."""
    if url.startswith("sqlite:///"):
        yield AsyncSqliteKeys(url.removeprefix("sqlite:///"))
    elif url.startswith("unix:"):
        async with redis.asyncio.from_url(url) as client:
            yield AsyncRedisKeys(client)
    else:
        async with asyncpg.create_pool(url, min_size=1, max_size=8) as connections:
            keys = AsyncPostgresKeys(connections)
            await keys.create_table()
            yield keys


async def main(port: int) -> None:
    settings = msgspec.json.decode(os.environ[VARIABLE], type=Settings)
    kept = IdempotencySettings(verifier=Verifier(settings.secret), required=True, lease=settings.lease)
    app = Starlette(routes=[Route(PATH, Merchant(settings).paid, methods=["POST"])])
    async with opened(settings.keys) as keys:
        front = IdempotencyMiddleware(app, keys, kept)
        # Whoever is about to use a connection again must not find it closed, on a machine that stalls in between.
        config = uvicorn.Config(front, port=port, lifespan="off", timeout_keep_alive=300)
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
