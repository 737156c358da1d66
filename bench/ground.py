"""Shared setup of the benchmarks: a durable database, an application with an endpoint, a backlog."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from msgspec import Struct
from rich.console import Console
from rich.progress import Progress

from hookline import clock
from hookline.config import load
from hookline.engine.hand_over import HandOverPoint
from hookline.ids import DEFAULT_ORG
from hookline.model.catalogue import Application
from hookline.model.endpoints import Secret
from hookline.observe.tally import Tally
from hookline.security import tokens
from hookline.security.vault import Vault
from hookline.server.process import work
from hookline.signing import new_secret
from hookline.store import Store, StoreOptions, open_store
from tests.support import factory
from tests.support.counts import count
from tests.support.postgres import private_server
from tests.support.processes import running

BODY = json.dumps({"type": "order.paid", "data": {"order": "o_8271", "amount": 4200, "note": "x" * 400}}).encode()


@contextmanager
def database(engine: str) -> Iterator[str]:
    """Create a new durable database: every commit is on disk before it is acknowledged."""
    if engine == "postgres":
        with private_server(durable=True, settings={"shared_buffers": "512MB", "max_wal_size": "4GB"}) as server:
            yield server.url("postgres")
    else:
        with tempfile.TemporaryDirectory(prefix="hookline-bench-") as directory:
            yield f"sqlite:///{directory}/hookline.db"


async def opened(url: str, env: dict[str, str]) -> Store:
    store = await open_store(url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    await store.migrate()
    return store


async def application(store: Store, url: str, *, channel: str | None = None) -> Application:
    organization = await store.catalogue.save_organization(factory.organization())
    app = await store.catalogue.create_application(organization.id, factory.new_application())
    await endpoint(store, app, url, channel=channel)
    return app


async def endpoint(store: Store, app: Application, url: str, *, channel: str | None = None) -> None:
    channels = None if channel is None else [channel]
    new = factory.new_endpoint(url=url, secrets=(Secret(key=new_secret()),), channels=channels)
    await store.catalogue.create_endpoint(app.no, new)


async def load_backlog(
    store: Store, apps: list[Application], messages: int, console: Console, payload: bytes = BODY
) -> None:
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"loading {messages:,} messages", total=messages)
        for start in range(0, messages, 500):
            numbers = range(start, min(start + 500, messages))
            await store.pipeline.ingest([factory.new_message(apps[n % len(apps)].no, payload=payload) for n in numbers])
            progress.advance(task, len(numbers))


async def drained(store: Store) -> None:
    while True:
        counts = await count(store)
        if not counts.open:
            return
        await asyncio.sleep(0.01)  # another process does the work, so there is no event to wait for


@asynccontextmanager
async def worker_here(store: Store, env: dict[str, str]) -> AsyncIterator[HandOverPoint]:
    """Run a worker in this process, as `hookline serve` does."""
    stop, hand_over = asyncio.Event(), HandOverPoint()
    config = load(env | {"HOOKLINE_LOG_ATTEMPTS": "off"})  # attempt lines would fill the benchmark's terminal
    task = asyncio.create_task(work(store, config, stop=stop, tally=Tally(), hand_over=hand_over))
    yield hand_over
    stop.set()
    await task


@asynccontextmanager
async def worker(store: Store, env: dict[str, str]) -> AsyncIterator[None]:
    """Run a worker in this process on SQLite, and in its own process on PostgreSQL."""
    if store.engine == "sqlite":
        async with worker_here(store, env):
            yield
    else:
        with tempfile.TemporaryDirectory() as directory, running(["worker"], env, Path(directory) / "log") as process:
            yield
            process.stop()


# ── a server with the API ──


class Server(Struct, frozen=True, kw_only=True):
    name: str
    port: int
    token: str

    def call(self, path: str, body: object) -> None:
        """Send a request that creates something."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", path, json.dumps(body), {"authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            if answer.status != 201:
                sys.exit(f"{path}: {answer.status} {answer.read()!r}")
        finally:
            connection.close()


@contextmanager
def api_server(
    name: str, command: Sequence[str], env: Mapping[str, str], log: Path, checkout: Path | None = None
) -> Iterator[Server]:
    """Run a command that serves the API, from another checkout of Hookline if one is given."""
    port = _free_port()
    with running([*command, "--json"], {**env, "HOOKLINE_PORT": str(port)}, log, folder=checkout) as process:
        while '"address"' not in process.output():
            if not process.running:
                sys.exit(process.output())
        yield Server(name=name, port=port, token=token(env["HOOKLINE_JWT_SECRET"]))
        process.stop()


def token(secret: str) -> str:
    return tokens.issue(secret, DEFAULT_ORG, now=clock.wall())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
