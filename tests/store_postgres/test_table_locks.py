"""A migration under load. A long transaction of another session makes the migration wait, but nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from hookline.errors import StoreUnavailable
from hookline.store import SCHEMA_VERSION, Store
from hookline.store.postgres import migrate as schema
from hookline.store.postgres import table_locks
from tests.support import factory
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

NEXT = SCHEMA_VERSION + 1
STEP = "ALTER TABLE hookline.wake ADD COLUMN of_the_next_release bigint"


def install_next_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a migration that alters the table that every ingest writes to, with a short lock timeout."""
    known = schema.migrations()
    monkeypatch.setattr(schema, "migrations", lambda: [*known, (NEXT, STEP)])
    monkeypatch.setattr(schema, "SCHEMA_VERSION", NEXT)
    monkeypatch.setattr(table_locks, "TIMEOUT", 0.3)
    monkeypatch.setattr(table_locks, "FIRST_PAUSE", 0.1)


async def test_a_running_dump_delays_a_migration_but_not_ingest(
    scene: Scene, second: Store, other: RawPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.endpoint()
    install_next_release(monkeypatch)
    dump = other.connection.transaction()
    await dump.start()
    await other.execute("LOCK TABLE wake IN ACCESS SHARE MODE")  # lock the tables as pg_dump does
    pid = await other.value("SELECT pg_backend_pid()")
    with capture_logs() as told:
        migrating = asyncio.create_task(second.migrate())
        held = f"a lock on hookline.wake held by pid {pid}"
        await until(lambda: migrating.done() or any(line["waits_for"].startswith(held) for line in told))
        async with asyncio.timeout(60):
            for _ in range(20):
                await scene.store.pipeline.ingest(factory.new_messages(scene.app.no, 1))
        assert not migrating.done()
        await dump.rollback()
        assert await migrating == [NEXT]
    assert {(line["event"], line["what"]) for line in told} == {("migration_waits", f"migration {NEXT}")}
    assert await second.version() == NEXT


async def test_a_migration_that_gives_up_names_the_reason_and_changes_nothing(
    store: Store, other: RawPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_next_release(monkeypatch)
    monkeypatch.setattr(table_locks, "TRIES", 2)
    async with other.connection.transaction():
        await other.execute("LOCK TABLE wake IN ACCESS SHARE MODE")
        with pytest.raises(StoreUnavailable, match=r"migration \d+ changed nothing: it waited 2 times for a lock"):
            await store.migrate()
        assert await store.version() == SCHEMA_VERSION
    assert await store.migrate() == [NEXT]


async def until(met: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not met():
            await asyncio.sleep(0.01)  # a log line has no event
