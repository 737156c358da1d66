"""Databases and Redis servers for the stores of keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from tests.receive.stages import STAGES, Stage
from tests.support.postgres import Databases
from tests.support.redis import RedisServer, binaries

BINARIES = binaries()

OpenStage = Callable[[str], Awaitable[Stage]]


class RedisServers:
    """Starts each server when a test first asks for it."""

    def __init__(self) -> None:
        self._started: dict[str, RedisServer] = {}

    def get(self, name: str) -> RedisServer:
        if name not in self._started:
            self._started[name] = server = RedisServer(BINARIES.get(name))
            server.start()
        return self._started[name]

    def close(self) -> None:
        for server in self._started.values():
            server.close()


@pytest.fixture(scope="session")
def redis_servers() -> Iterator[RedisServers]:
    servers = RedisServers()
    yield servers
    servers.close()


@pytest.fixture
def redis_url(redis_servers: RedisServers) -> str:
    """Return an empty database of Redis, or of Valkey if only that is installed."""
    return _emptied(redis_servers.get("redis" if "redis" in BINARIES else "valkey"))


@pytest.fixture
def valkey_url(redis_servers: RedisServers) -> str:
    return _emptied(redis_servers.get("valkey"))


def _emptied(server: RedisServer) -> str:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server.url


@pytest.fixture(scope="session")
def _keys_database(postgres_databases: Databases) -> Iterator[str]:
    name = postgres_databases.create()
    yield postgres_databases.server.url(name)
    postgres_databases.drop(name)


@pytest.fixture
def keys_url(_keys_database: str) -> str:
    """Return a PostgreSQL database without the table of keys."""
    with psycopg.connect(_keys_database, autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS hookline_idempotency")
    return _keys_database


@pytest.fixture
def keys_file(tmp_path: Path) -> str:
    return str(tmp_path / "keys.db")


PLACES = {"sqlite": "keys_file", "postgres": "keys_url", "redis": "redis_url", "valkey": "valkey_url"}


@pytest.fixture(params=[name for name, (_, engine) in STAGES.items() if engine != "valkey" or engine in BINARIES])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Open each store, sync and async. Valkey is included if it is installed."""
    kind, engine = STAGES[request.param]
    made = kind(request.getfixturevalue(PLACES[engine]))
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def open_stage(request: pytest.FixtureRequest) -> AsyncIterator[OpenStage]:
    """Return a function that opens a store by its name in `STAGES`."""
    opened: list[Stage] = []

    async def open_one(name: str) -> Stage:
        kind, engine = STAGES[name]
        opened.append(kind(request.getfixturevalue(PLACES[engine])))
        await opened[-1].open()
        return opened[-1]

    yield open_one
    for one in opened:
        await one.close()
