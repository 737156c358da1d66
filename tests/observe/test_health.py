"""`/health/live` and `/health/ready`: whether a process may get requests, and the reasons why not."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from starlette.responses import PlainTextResponse

from hookline.engine.heartbeat import Heartbeat
from hookline.errors import StoreUnavailable
from hookline.observe.tally import Tally
from hookline.security.vault import new_key
from hookline.server import http as server
from hookline.server import sockets as listeners
from hookline.store import SCHEMA_VERSION, Store
from hookline.web.health import Health, StartupApp
from tests.api.conftest import Answer, Client
from tests.support.cli import Cli
from tests.support.full_disk import file_limit, filled, incompressible, set_read_only, small_disk
from tests.support.ports import free_port
from tests.support.postgres import private_server
from tests.support.serving import Served, serving


class Asked:
    """A fake store that returns one of `versions` for each query, or raises it, and counts the queries."""

    writable = True

    def __init__(self, *versions: int | Exception) -> None:
        self.versions = list(versions)
        self.looks = 0

    async def version(self) -> int:
        self.looks += 1
        given = self.versions[min(self.looks, len(self.versions)) - 1]
        if isinstance(given, Exception):
            raise given
        return given


@asynccontextmanager
async def answering(health: Health) -> AsyncIterator[tuple[Client, StartupApp]]:
    door, stop = StartupApp(health), asyncio.Event()
    listener = listeners.bind("127.0.0.1", 0)
    running = asyncio.create_task(server.serve(door, listener, stop=stop, grace=2))
    try:
        yield Client(listeners.address(listener).removeprefix("http://")), door
    finally:
        stop.set()
        await running


def reasons(answer: Answer) -> list[str]:
    found = answer.json(503)
    assert found["status"] == "not ready"
    told: list[str] = found["reasons"]
    return told


async def test_live_from_the_start_and_not_ready_before_migrations_are_done(store: Store) -> None:
    health = Health(asyncio.Event())
    async with answering(health) as (client, door):
        assert (await client.get("/health/live")).json() == {"status": "live"}
        assert "migrated" in reasons(await client.get("/health/ready"))[0]
        early = asyncio.create_task(client.get("/anything"))  # the early request waits and is not refused
        health.opened(store)
        door.open(PlainTextResponse("the app"))
        assert (await client.get("/health/ready")).json() == {"status": "ready"}
        assert (await early).body == b"the app"
        assert (await client.request("POST", "/health/ready", b"", {})).status == 405
        assert (await client.request("HEAD", "/health/ready", None, {})).status == 200
        assert (await client.get("/health/ready")).headers["cache-control"] == "no-store"


async def test_a_stopping_process_is_live_but_not_ready(store: Store) -> None:
    leaving = asyncio.Event()
    health = Health(leaving)
    health.opened(store)
    async with answering(health) as (client, _door):
        leaving.set()
        assert reasons(await client.get("/health/ready")) == ["the process is shutting down"]
        assert (await client.get("/health/live")).status == 200


async def ready(*versions: int | Exception) -> list[str]:
    health = Health(asyncio.Event())
    health.opened(Asked(*versions))  # type: ignore[arg-type]
    return await health.unready()


async def test_missing_migrations_and_an_unavailable_database_are_reported() -> None:
    assert await ready(SCHEMA_VERSION) == []
    assert await ready(SCHEMA_VERSION + 1) == []  # a newer release migrated the database while this process runs
    assert "hookline migrate" in (await ready(SCHEMA_VERSION - 1))[0]
    (away,) = await ready(StoreUnavailable("postgres://user:password@host is gone"))
    assert away == "the database is not available"


async def test_many_concurrent_requests_query_the_database_once() -> None:
    asked = Asked(SCHEMA_VERSION)
    health = Health(asyncio.Event())
    health.opened(asked)  # type: ignore[arg-type]
    await asyncio.gather(*(health.unready() for _ in range(50)))
    assert asked.looks == 1


async def test_readiness_follows_a_database_that_stops_and_starts(tmp_path: Path) -> None:
    """The test stops a PostgreSQL server of its own under the running process."""
    with private_server() as postgres:
        cli = Cli(
            {
                "HOOKLINE_DATABASE_URL": postgres.url("postgres"),
                "HOOKLINE_JWT_SECRET": "a secret that only the tests of health know",
                "HOOKLINE_SECRET_KEY": new_key(),
                "HOOKLINE_PORT": free_port(),
            },
            str(tmp_path),
        )
        async with cli.running("serve", "--role", "api", "--json") as running:
            client = Client((await running.json_line())["address"].removeprefix("http://"))
            assert (await client.get("/health/ready")).json() == {"status": "ready"}
            postgres.stop()
            await becomes(client, 503, "the database is not available")
            assert (await client.get("/health/live")).status == 200
            postgres.start()
            await becomes(client, 200)


async def becomes(client: Client, status: int, word: str = "") -> None:
    """Poll until `/health/ready` answers with `status` and a body that contains `word`. The process checks its
    state once a second and sends no event."""
    async with asyncio.timeout(60):
        while True:
            answer = await client.get("/health/ready")
            if answer.status == status and word in answer.body.decode():
                return
            await asyncio.sleep(0.05)  # another process changes its state, so there is no event to await


async def test_the_real_command_is_not_ready_while_another_process_migrates(tmp_path: Path) -> None:
    """Another transaction locks the file, so the process must wait before it can migrate."""
    port = free_port()
    cli = Cli({"HOOKLINE_PORT": port}, str(tmp_path))
    await cli("migrate")
    client = Client(f"127.0.0.1:{port}")
    held = sqlite3.connect(tmp_path / "hookline.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    try:
        async with cli.running("serve", "--json") as running:
            answer = await connected(client)
            assert "migrated" in reasons(answer)[0]
            held.execute("ROLLBACK")
            await running.json_line()
            await becomes(client, 200)
    finally:
        held.close()


async def connected(client: Client) -> Answer:
    async with asyncio.timeout(60):
        while True:
            try:
                return await client.get("/health/ready")
            except OSError:
                await asyncio.sleep(0.05)  # the process does not listen yet


async def test_a_process_that_shuts_down_is_not_ready_but_still_answers_requests(tmp_path: Path) -> None:
    cli = Cli({"HOOKLINE_PORT": free_port(), "HOOKLINE_SHUTDOWN_DELAY": "5m"}, str(tmp_path))
    async with cli.running("serve", "--json") as running:
        client = Client((await running.json_line())["address"].removeprefix("http://"))
        await becomes(client, 200)
        running.process.send_signal(signal.SIGTERM)
        await becomes(client, 503, "shutting down")
        assert (await client.get("/api/v1/health")).status == 204
        await running.stop(signal.SIGKILL)  # a second SIGTERM would change nothing


# ── writes that fail ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_readiness_follows_a_database_that_refuses_writes(engine: str, database_url: str, tmp_path: Path) -> None:
    """PostgreSQL is read-only, as after a failover. The WAL of SQLite reaches a limit of its size."""
    with serving(database_url, tmp_path, role="api") as served:
        client = await shop(served)
        if engine == "postgres":
            await set_read_only(database_url, read_only=True)
            await not_ready_when_posting(client)
            await set_read_only(database_url, read_only=False)
        else:
            with file_limit(served.process.pid, 64 * 1024):
                await not_ready_when_posting(client)
        await becomes(client, 200)
        assert (await post(client)).status == 202


async def test_readiness_follows_a_full_disk(engine: str, tmp_path: Path) -> None:
    with small_disk("48m") as disk:
        if disk is None:
            pytest.skip("this user may not mount a small disk; the test above makes writes fail in another way")
        async with database_on(engine, disk) as url:
            with serving(url, tmp_path, role="api") as served:
                client = await shop(served)
                with filled(disk):
                    await not_ready_when_posting(client)
                    assert (await client.get("/api/v1/app/shop")).status == 200
                await becomes(client, 200)
                assert (await post(client)).status == 202


async def test_readiness_without_requests_notices_that_heartbeats_fail(store: Store, database_url: str) -> None:
    heart = Heartbeat(store, Tally(), random.Random(1))
    health = Health(asyncio.Event())
    health.opened(store)
    async with refusing_writes(database_url):
        await heart.beat()
    await connected_again(store)
    assert await health.unready() == ["the database refuses writes"]
    health = Health(asyncio.Event())  # the last answer is reused for a second
    health.opened(store)
    await heart.beat()
    assert await health.unready() == []


async def connected_again(store: Store) -> None:
    """Wait until the store has replaced the connections that were ended."""
    async with asyncio.timeout(60):
        while True:
            try:
                await store.version()
            except StoreUnavailable:
                await asyncio.sleep(0.05)  # there is no event for a connection that broke
            else:
                return


@asynccontextmanager
async def refusing_writes(url: str) -> AsyncIterator[None]:
    """Make all writes fail: PostgreSQL is read-only, and SQLite's write lock is taken."""
    if url.startswith("postgres"):
        await set_read_only(url, read_only=True)
        yield
        await set_read_only(url, read_only=False)
        return
    held = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    yield
    held.close()


@asynccontextmanager
async def database_on(engine: str, disk: Path) -> AsyncIterator[str]:
    """A new database whose files are on `disk`. PostgreSQL's write-ahead log is on another disk."""
    if engine == "sqlite":
        yield f"sqlite:///{disk}/hookline.db"
        return
    with private_server() as postgres:
        postgres.own(disk)
        connection = await asyncpg.connect(postgres.url("postgres"))
        await connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        await connection.execute("CREATE DATABASE small TABLESPACE small")
        await connection.close()
        yield postgres.url("small")


async def shop(served: Served) -> Client:
    """Return a client of a new application, after the server is ready."""
    client = Client(served.address.removeprefix("http://"), served.token)
    (await client.post("/api/v1/app", {"name": "Shop", "uid": "shop"})).json(201)
    assert (await post(client)).status == 202
    await becomes(client, 200)
    return client


async def post(client: Client, size: int = 2) -> Answer:
    body = {"eventType": "order.paid", "payload": {"text": incompressible(size)}}
    return await client.post("/api/v1/app/shop/msg", body)


async def not_ready_when_posting(client: Client) -> None:
    """Post large messages until readiness shows that they fail. The first ones may fit into free space."""
    async with asyncio.timeout(60):
        while (await post(client, 200_000)).status != 503 or (await client.get("/health/ready")).status != 503:
            await asyncio.sleep(0.2)  # the process reuses the result of a check for a second
    await becomes(client, 503, "the database refuses writes")
