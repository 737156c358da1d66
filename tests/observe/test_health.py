"""`/health/live` and `/health/ready`: who may be sent requests, and why not."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.responses import PlainTextResponse

from hookline.errors import StoreUnavailable
from hookline.security.vault import new_key
from hookline.server import http as server
from hookline.server import sockets as listeners
from hookline.store.protocols import SCHEMA_VERSION, Store
from hookline.web.health import Health, StartupGate
from tests.api.conftest import Answer, Client
from tests.support.cli import Cli
from tests.support.ports import free_port
from tests.support.postgres import private_server


class Asked:
    """A store whose version is what the test says; it counts how often it was asked."""

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
async def answering(health: Health) -> AsyncIterator[tuple[Client, StartupGate]]:
    door, stop = StartupGate(health), asyncio.Event()
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


async def test_live_from_the_first_moment_and_not_ready_before_migrations_are_done(store: Store) -> None:
    health = Health(asyncio.Event())
    async with answering(health) as (client, door):
        assert (await client.get("/health/live")).json() == {"status": "live"}
        assert "migrated" in reasons(await client.get("/health/ready"))[0]
        early = asyncio.create_task(client.get("/anything"))  # waits, and is not refused
        health.opened(store)
        door.open(PlainTextResponse("the app"))
        assert (await client.get("/health/ready")).json() == {"status": "ready"}
        assert (await early).body == b"the app"
        assert (await client.request("POST", "/health/ready", b"", {})).status == 405
        assert (await client.request("HEAD", "/health/ready", None, {})).status == 200
        assert (await client.get("/health/ready")).headers["cache-control"] == "no-store"


async def test_not_ready_when_asked_to_stop_and_still_live(store: Store) -> None:
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


async def test_migrations_that_are_missing_and_a_database_that_is_away() -> None:
    assert await ready(SCHEMA_VERSION) == []
    assert await ready(SCHEMA_VERSION + 1) == []  # a newer release migrated it, and we still run
    assert "hookline migrate" in (await ready(SCHEMA_VERSION - 1))[0]
    (away,) = await ready(StoreUnavailable("postgres://user:password@host is gone"))
    assert away == "the database is not available"


async def test_however_many_ask_the_database_is_looked_at_once() -> None:
    asked = Asked(SCHEMA_VERSION)
    health = Health(asyncio.Event())
    health.opened(asked)  # type: ignore[arg-type]
    await asyncio.gather(*(health.unready() for _ in range(50)))
    assert asked.looks == 1


async def test_a_database_that_went_away_and_came_back(tmp_path: Path) -> None:
    """With a server of its own, stopped under the process."""
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
    """The answer is another process's, a second late at most: there is no event for it."""
    async with asyncio.timeout(60):
        while True:
            answer = await client.get("/health/ready")
            if answer.status == status and word in answer.body.decode():
                return
            await asyncio.sleep(0.05)  # there is no event to await for it


async def test_the_real_command_is_not_ready_while_another_process_migrates(tmp_path: Path) -> None:
    """The file is locked by somebody else's transaction: ours has to wait before it can migrate."""
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
                await asyncio.sleep(0.05)  # it has not bound its port yet


async def test_between_the_signal_and_the_end_it_says_no_and_still_answers(tmp_path: Path) -> None:
    cli = Cli({"HOOKLINE_PORT": free_port(), "HOOKLINE_SHUTDOWN_DELAY": "5m"}, str(tmp_path))
    async with cli.running("serve", "--json") as running:
        client = Client((await running.json_line())["address"].removeprefix("http://"))
        await becomes(client, 200)
        running.process.send_signal(signal.SIGTERM)
        await becomes(client, 503, "shutting down")
        assert (await client.get("/api/v1/health")).status == 204
        await running.stop(signal.SIGTERM)  # a second one ends it at once
