"""Hookline: one `hookline serve`, whose messages come from the database, from the API, or from the outbox."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import uvloop
from rich.console import Console

from bench import flow as api
from bench.ground import Server, api_server, application, database, load_backlog, opened
from bench.peers.task import PART, Arrivals, Task, awaited, by_body, measured
from bench.witness import Witness, digest
from hookline import outbox
from hookline.clock import monotonic
from hookline.outbox import setup
from tests.support.processes import environment

# Commits a transaction with one event for an application, and returns the time at which `publish` was called.
Publish = Callable[[str, bytes], Awaitable[float]]


def drain(engine: str, task: Task, console: Console) -> Arrivals:
    """Load messages, then start a server and wait until it has delivered them."""
    with database(engine) as url, Witness() as witness, tempfile.TemporaryDirectory() as directory:
        env = _settings(url)
        uvloop.run(_load(url, env, witness, task, console))
        with api_server(engine, ["serve"], env, Path(directory) / "log"):
            return awaited(witness, task.messages, task.limit)


def flow(engine: str, task: Task) -> tuple[dict[str, float], Arrivals]:
    """Send messages to the API. Return the time at which each one was due by message id, and the arrivals."""
    with database(engine) as url, Witness() as witness, _serving(engine, _settings(url), witness) as server:
        due = uvloop.run(api.flow(server, witness, task.rate, task.messages / task.rate - task.warm, task.warm))
        return due, awaited(witness, task.messages, task.limit)


def outbox_flow(engine: str, task: Task) -> tuple[dict[str, float], Arrivals]:
    """Publish events in transactions. Return the time of each call by digest of the body, and the arrivals."""
    with (
        database(engine) as url,
        Witness() as witness,
        tempfile.TemporaryDirectory(prefix="hookline-bench-") as directory,
    ):
        file = Path(directory) / "shop.db"
        env = _settings(url, **({"HOOKLINE_OUTBOX_URLS": f"sqlite:///{file}"} if engine == "sqlite" else {}))
        with _serving(engine, env, witness):
            shop = _sqlite_shop(file) if engine == "sqlite" else _postgres_shop(url)
            called = uvloop.run(_publish(shop, task))
            return measured(called, task.warm), awaited(witness, task.messages, task.limit, by_body)


# ── the server ────────────────────────────────────────────────────────────────────────────────────────────────────


def _settings(url: str, **more: str) -> dict[str, str]:
    quiet = {"HOOKLINE_REQUEST_TIMEOUT": "30s", "HOOKLINE_LEASE": "60s", "HOOKLINE_LOG_ATTEMPTS": "off"}
    return environment(url, **quiet, **more)


async def _load(url: str, env: dict[str, str], witness: Witness, task: Task, console: Console) -> None:
    store = await opened(url, env)
    apps = [await application(store, witness.url(f"{PART}/{number}")) for number in range(task.endpoints)]
    await load_backlog(store, apps, task.messages, console, task.body)
    await store.close()


@contextmanager
def _serving(engine: str, env: dict[str, str], witness: Witness) -> Iterator[Server]:
    """Run a server with applications that have one endpoint each."""
    with (
        tempfile.TemporaryDirectory() as directory,
        api_server(engine, ["serve"], env, Path(directory) / "log") as server,
    ):
        for number in range(api.CUSTOMERS):
            server.call("/api/v1/app", {"name": f"customer {number}", "uid": f"c{number}"})
            server.call(f"/api/v1/app/c{number}/endpoint", {"url": witness.url(f"{PART}/{number}")})
        yield server


# ── the outbox ────────────────────────────────────────────────────────────────────────────────────────────────────


async def _publish(shop: AbstractAsyncContextManager[Publish], task: Task) -> dict[str, float]:
    called: dict[str, float] = {}
    async with shop as publish:
        start = monotonic()
        for number in range(task.messages):
            await asyncio.sleep(max(0.0, start + number / task.rate - monotonic()))
            body = b'{"number":%d,"order":%s}' % (number, task.body)
            called[digest(body)] = await publish(f"c{number % api.CUSTOMERS}", body)
    return called


@asynccontextmanager
async def _postgres_shop(url: str) -> AsyncIterator[Publish]:
    session = await asyncpg.connect(url)

    async def publish(app: str, body: bytes) -> float:
        async with session.transaction():
            called = monotonic()
            await outbox.publish_async(session, app, "order.paid", body)
        return called

    yield publish
    await session.close()


@asynccontextmanager
async def _sqlite_shop(file: Path) -> AsyncIterator[Publish]:
    session = sqlite3.connect(file, isolation_level=None)
    session.executescript("PRAGMA journal_mode = WAL;" + setup.sql("sqlite"))

    async def publish(app: str, body: bytes) -> float:
        session.execute("BEGIN IMMEDIATE")
        called = monotonic()
        outbox.publish(session, app, "order.paid", body)
        session.execute("COMMIT")
        return called

    yield publish
    session.close()
