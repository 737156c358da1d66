"""Migrations run once, in order, under one lock, and never backwards."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookline.errors import MigrationNeeded
from hookline.security.vault import Vault
from hookline.store import SCHEMA_VERSION, Store, StoreOptions, open_store
from hookline.store import migrations as migrations_package
from hookline.store.postgres import migrate as schema
from hookline.store.sqlite import migrate
from tests.support import factory
from tests.support.raw import open_raw

FOLDER = Path(next(iter(migrations_package.__path__)))


@pytest.fixture
async def empty(empty_url: str, vault: Vault) -> AsyncIterator[list[Store]]:
    """Three stores on a database without migrations."""
    handles = [await open_store(empty_url, vault=vault, options=StoreOptions(pool_size=2)) for _ in range(3)]
    yield handles
    for handle in handles:
        await handle.close()


def numbers(engine: str) -> list[int]:
    return sorted(int(path.name.partition("_")[0]) for path in (FOLDER / engine).glob("*.sql"))


def test_both_engines_have_the_same_migrations() -> None:
    names = [sorted(path.name for path in (FOLDER / engine).glob("*.sql")) for engine in ("sqlite", "postgres")]
    assert names[0] == names[1]
    assert numbers("sqlite") == list(range(1, SCHEMA_VERSION + 1))


async def test_an_empty_database_is_migrated_once(empty: list[Store], engine: str) -> None:
    store = empty[0]
    assert await store.version() == 0
    assert await store.migrate() == numbers(engine)
    assert await store.version() == SCHEMA_VERSION
    assert await store.migrate() == []
    org = await store.catalogue.save_organization(factory.organization())
    assert await empty[1].catalogue.organization(org.id) == org


async def test_processes_that_start_together_migrate_once(empty: list[Store], engine: str) -> None:
    applied = await asyncio.gather(*(handle.migrate() for handle in empty))
    # each migration is applied by one of the three stores
    assert sorted(number for each in applied for number in each) == numbers(engine)
    assert [await handle.version() for handle in empty] == [SCHEMA_VERSION] * 3


def install(monkeypatch: pytest.MonkeyPatch, engine: str, *later: str) -> None:
    """Simulate a release that has the additional migrations `later`."""
    more = {SCHEMA_VERSION + place: text for place, text in enumerate(later, 1)}
    if engine == "postgres":
        known = dict(schema.migrations())
        monkeypatch.setattr(schema, "migrations", lambda: sorted((known | more).items()))
        monkeypatch.setattr(schema, "SCHEMA_VERSION", max(more))
    else:
        known = migrate.scripts()
        monkeypatch.setattr(migrate, "scripts", lambda: known | more)


def column(engine: str, name: str) -> str:
    """Return a migration that adds this column."""
    schema = "hookline." if engine == "postgres" else ""
    return f"ALTER TABLE {schema}organization ADD COLUMN {name} text NOT NULL DEFAULT 'of old';"


async def test_a_later_migration_is_applied_to_a_database_that_is_in_use(
    empty: list[Store], empty_url: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, later = empty[0], SCHEMA_VERSION + 1
    await store.migrate()
    org = await store.catalogue.save_organization(factory.organization())
    install(monkeypatch, engine, column(engine, "later"))
    assert await store.migrate() == [later]
    assert (await store.version(), await store.migrate()) == (later, [])
    assert await store.catalogue.organization(org.id) == org
    raw = await open_raw(empty_url)
    assert await raw.rows("SELECT id, later FROM organization") == [{"id": org.id, "later": "of old"}]
    await raw.close()


async def test_a_migration_that_failed_is_resumed_where_it_stopped(
    empty: list[Store], engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL commits each migration separately. SQLite commits all missing migrations at once."""
    store, (second, third) = empty[0], (SCHEMA_VERSION + 1, SCHEMA_VERSION + 2)
    await store.migrate()
    install(monkeypatch, engine, column(engine, "second"), column(engine, "third") + "\nSELECT nothing_such();")
    with pytest.raises((MigrationNeeded, sqlite3.OperationalError)):
        await store.migrate()
    reached = {"postgres": second, "sqlite": SCHEMA_VERSION}[engine]
    assert await store.version() == reached
    install(monkeypatch, engine, column(engine, "second"), column(engine, "third"))
    assert await store.migrate() == [number for number in (second, third) if number > reached]


async def test_a_database_of_a_newer_release_is_refused(empty: list[Store], empty_url: str) -> None:
    await empty[0].migrate()
    raw = await open_raw(empty_url)
    await raw.execute(
        "INSERT INTO migration (number, applied_at) VALUES ($1, $2)", SCHEMA_VERSION + 1, factory.instant()
    )
    await raw.close()
    assert await empty[1].version() == SCHEMA_VERSION + 1
    with pytest.raises(MigrationNeeded, match="newer"):
        await empty[1].migrate()
