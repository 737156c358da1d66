"""25 copies of one request at the same time have one effect, and are answered with 200 or 409 only.

The tests cover every framework and store, with one server process and with two processes that share the store.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from hookline.receive.stores.postgres import table_sql
from tests.receive.conftest import BINARIES, RedisServers
from tests.support.postgres import Databases

COPIES, ROUNDS = 25, 10
FRAMEWORKS = ("starlette", "fastapi", "litestar", "flask", "django", "django-async")
STORES = ("sqlite", "postgres", "redis")


class Anvil(NamedTuple):
    ports: list[dict[str, int]]  # the ports of each process, by framework
    effects: Path

    def effects_of(self, key: str) -> list[str]:
        return [line.split()[1] for line in self.effects.read_text().splitlines() if line.split()[0] == key]


@pytest.fixture(scope="module")
def anvil(
    tmp_path_factory: pytest.TempPathFactory, postgres_databases: Databases, redis_servers: RedisServers
) -> Iterator[Anvil]:
    """Run two processes that serve every framework and store."""
    directory = tmp_path_factory.mktemp("anvil")
    name = postgres_databases.create()
    postgres = postgres_databases.server.url(name)
    with psycopg.connect(postgres, autocommit=True) as conn:
        conn.execute(table_sql())
    redis_url = redis_servers.get("redis" if "redis" in BINARIES else "valkey").url
    effects = directory / "effects"
    effects.touch()
    command = [sys.executable, "-m", "tests.receive.anvil", directory / "keys.db", postgres, redis_url, effects]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        yield Anvil([json.loads(process.stdout.readline()) for process in processes if process.stdout], effects)
    finally:
        for process in processes:
            process.communicate()  # The process ends when its input ends.
        postgres_databases.drop(name)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_one_process(anvil: Anvil, framework: str, store: str) -> None:
    await _hammer(anvil, [anvil.ports[0][framework]], store)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_two_processes(anvil: Anvil, framework: str, store: str) -> None:
    await _hammer(anvil, [ports[framework] for ports in anvil.ports], store)


async def test_two_processes_of_different_frameworks(anvil: Anvil) -> None:
    """The sync and the async classes of a store use the same keys, and all frameworks give a request the same
    fingerprint."""
    first, second = anvil.ports
    for store in STORES:
        await _hammer(anvil, [first["flask"], second["starlette"], second["django"], first["litestar"]], store)


async def _hammer(anvil: Anvil, ports: list[int], store: str) -> None:
    seen: Counter[int] = Counter()
    for _ in range(ROUNDS):
        key = secrets.token_hex(8)
        replies = await _strike(ports, store, key)
        seen.update(reply.status for reply in replies)
        assert {reply.status for reply in replies} <= {200, 409}
        [effect] = anvil.effects_of(key)
        answer = {"charge": effect}
        assert [json.loads(reply.body) for reply in replies if reply.status == 200].count(answer) >= 1
        assert all(json.loads(reply.body) == answer for reply in replies if reply.status == 200)
        assert all("retry-after" in reply.headers for reply in replies if reply.status == 409)
        [last] = await _strike(ports[-1:], store, key, copies=1)
        assert (last.status, json.loads(last.body)) == (200, answer)
        assert last.headers["idempotency-replayed"] == "true"
        assert anvil.effects_of(key) == [effect]
    assert seen[409] > 0, "no copy arrived while another one was running"


# ── the client opens all connections first, then sends all requests ───────────────────────────────────────────────


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


async def _strike(ports: list[int], store: str, key: str, copies: int = COPIES) -> list[Reply]:
    body = b'{"order": "7"}'
    request = (
        f"POST /{store} HTTP/1.1\r\nhost: localhost\r\nidempotency-key: {key}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body
    opened = [asyncio.open_connection("127.0.0.1", ports[number % len(ports)]) for number in range(copies)]
    connections = await asyncio.gather(*opened)
    for _, writer in connections:
        writer.write(request)
    return list(await asyncio.gather(*(_reply(*connection) for connection in connections)))


async def _reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Reply:
    async with asyncio.timeout(60):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Reply(int(first.split()[1]), headers, body)
