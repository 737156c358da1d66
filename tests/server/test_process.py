"""What a process does before it starts to work: its checks, and its retries if the database becomes unavailable."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hookline.config import load
from hookline.errors import ConfigError, VaultError
from hookline.security.vault import Vault, new_key
from hookline.server.process import check_keys, silent_slots
from hookline.server.sockets import bind
from hookline.store import StoreOptions, open_store, sql
from tests.support.cli import Cli
from tests.support.ports import free_port
from tests.support.postgres import Databases
from tests.support.processes import environment
from tests.support.proxy import in_front_of, relay
from tests.support.scene import Scene


@pytest.mark.parametrize("deleted", [0, 50])
async def test_a_worker_with_the_wrong_key_does_not_start(scene: Scene, database_url: str, deleted: int) -> None:
    """A worker with the wrong key would turn all waiting deliveries into dead letters."""
    for _ in range(deleted):
        await scene.store.catalogue.delete_endpoint((await scene.endpoint()).no)
    await scene.endpoint()
    await check_keys(scene.store)
    stranger = await open_store(database_url, vault=Vault([new_key()]), options=StoreOptions(pool_size=2))
    with pytest.raises(VaultError, match="HOOKLINE_SECRET_KEY"):
        await check_keys(stranger)
    await stranger.close()


async def test_the_sample_of_the_check_has_the_oldest_and_the_newest_endpoints(scene: Scene) -> None:
    made = [await scene.endpoint() for _ in range(7)]
    for gone in (made[0], made[-1]):
        await scene.store.catalogue.delete_endpoint(gone.no)
    sample = await scene.store.catalogue.endpoints_sample(2)
    assert sorted(one.no for one in sample) == [made[index].no for index in (1, 2, 4, 5)]
    assert len(await scene.store.catalogue.endpoints_sample(4)) == 5


async def test_a_database_without_endpoints_needs_no_key(scene: Scene) -> None:
    await check_keys(scene.store)


@pytest.mark.parametrize(
    ("given", "files", "expected"),
    [({}, 20_000, 4096), ({"HOOKLINE_SILENT_CONCURRENCY": "300"}, 20_000, 300), ({}, 4096, 896), ({}, 1024, 64)],
)  # fmt: skip
def test_slots_for_silent_endpoints_leave_files_for_the_others(
    given: dict[str, str], files: int, expected: int
) -> None:
    assert silent_slots(load(environment("sqlite:///unused.db", **given)), files) == expected


@pytest.mark.parametrize("host", ["x" * 64, "a..b", "not-a-host.invalid"])
def test_a_host_that_cannot_be_resolved_is_a_clear_error(host: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot listen on {host}: "):
        bind(host, 0)


# ── the database goes away during the start ──────────────────────────────────────────────────────────────────────


class CuttingProxy:
    """A proxy in front of PostgreSQL. It closes the first `cuts` connections on which `statement` is sent."""

    def __init__(self, statement: str, cuts: int) -> None:
        self._marker = statement.encode()
        self.cuts = cuts  # number of connections that are still to be closed

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        await relay(reader, writer, host, port, there=self._forward)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = b""
        while data := await reader.read(65536):
            sent += data
            if self.cuts and self._marker in sent:
                self.cuts -= 1
                return
            writer.write(data)


@pytest.mark.parametrize("statement", ["now", "organization", "endpoints_sample"])
async def test_a_process_waits_for_a_database_that_goes_away_while_it_starts(
    statement: str, postgres_databases: Databases, postgres_template: str, tmp_path: Path
) -> None:
    name = postgres_databases.create(postgres_template)
    proxy = CuttingProxy(sql.load("postgres")[statement], cuts=3)
    async with in_front_of(postgres_databases.server.url(name), proxy.serve) as url:
        settings = {
            "HOOKLINE_DATABASE_URL": url,
            "HOOKLINE_JWT_SECRET": "a secret that only the tests of processes know",
            "HOOKLINE_SECRET_KEY": new_key(),
            "HOOKLINE_PORT": free_port(),
        }
        async with Cli(settings, str(tmp_path)).running("serve", "--json") as running:
            assert (await running.json_line())["role"] == "all"
            assert running.process.stderr is not None
            async with asyncio.timeout(60):
                while b"database_back" not in (line := await running.process.stderr.readline()):
                    assert line, "the process ended"
        assert proxy.cuts == 0
    postgres_databases.give_back(name, postgres_template)
