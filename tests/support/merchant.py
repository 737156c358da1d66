"""An application that receives webhooks with `hookline.receive`, in its own process, so that a test can kill it.

    MERCHANT='{"secret": "whsec_...", "keys": "sqlite:///...", ...}' python -m tests.support.merchant PORT

The handler writes a row into the ledger, a SQLite file, at each step, and commits it at once. Before its effect, and
before its answer, it waits until the test allows that step.
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
    directory: str  # directory of the ledger, and of the files with which the test allows a step
    lease: float
    inbox: bool = False  # write the effect and its key in one transaction


def open_ledger(directory: str | Path) -> sqlite3.Connection:
    """Open the ledger. Each statement commits by itself."""
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
            await self._wait_for_step("effect")
            self._effect(ledger, event)
            await self._wait_for_step("answer")
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

    async def _wait_for_step(self, name: str) -> None:
        while not self._is_allowed(name):
            await asyncio.sleep(0.01)  # another process creates the file, so there is no event to wait for

    def _is_allowed(self, step: str) -> bool:
        return Path(self._settings.directory, step).exists()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Any]:
    """Open the store of idempotency keys."""
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
        guarded = IdempotencyMiddleware(app, keys, kept)
        # A client on a slow machine may reuse an idle connection late. So the server keeps idle connections open for
        # long.
        config = uvicorn.Config(guarded, port=port, lifespan="off", timeout_keep_alive=300)
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
