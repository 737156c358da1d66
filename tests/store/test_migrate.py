"""Migrations: once, in order, under one lock, and never backwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookline.errors import MigrationNeeded
from hookline.model import Application, OnDeath, Ordering, Secret, SlotBudgets
from hookline.model.states import DeliveryState
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from hookline.store import migrations as migrations_package
from hookline.store.protocols import SCHEMA_VERSION, Page
from hookline.store.rows import seal_secrets
from hookline.store.sqlite import SqliteStore
from hookline.store.sqlite.migrate import apply
from tests.support import factory
from tests.support.raw import open_raw

FOLDER = Path(next(iter(migrations_package.__path__)))


@pytest.fixture
async def empty(empty_url: str, vault: Vault) -> AsyncIterator[list[Store]]:
    """Three handles on a database that was never migrated."""
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


async def test_an_empty_database_is_brought_up_to_date_once(empty: list[Store], engine: str) -> None:
    store = empty[0]
    assert await store.version() == 0
    assert await store.migrate() == numbers(engine)
    assert await store.version() == SCHEMA_VERSION
    assert await store.migrate() == []
    org = await store.save_organization(factory.organization())
    assert await empty[1].organization(org.id) == org


async def test_processes_that_start_together_migrate_once(empty: list[Store], engine: str) -> None:
    applied = await asyncio.gather(*(handle.migrate() for handle in empty))
    assert sorted(number for each in applied for number in each) == numbers(engine)  # each by one of them
    assert [await handle.version() for handle in empty] == [SCHEMA_VERSION] * 3


async def up_to(store: Store, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a release of that version left it."""
    if store.engine == "postgres":
        with monkeypatch.context() as patch:
            patch.setattr("hookline.store.postgres.schema_version.SCHEMA_VERSION", number)
            await store.migrate()
    else:
        assert isinstance(store, SqliteStore)
        for each in range(1, number + 1):
            await store._write(apply, each)
    assert await store.version() == number


async def test_a_database_of_the_first_version_goes_on_with_what_it_has(
    empty: list[Store], empty_url: str, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = empty[0]
    await up_to(store, 1, monkeypatch)
    org = await store.save_organization(factory.organization())
    app = await store.create_application(org.id, factory.new_application())
    await first_endpoint(empty_url, app, vault)
    assert await store.migrate() == list(range(2, SCHEMA_VERSION + 1))
    (endpoint,) = await store.endpoints(app.no, Page())
    assert (endpoint.ordering, endpoint.on_death) == (Ordering.KEY, OnDeath.SKIP)
    accepted = await store.ingest(factory.new_messages(app.no, 2))
    delivered, died = (await store.claim(10, SlotBudgets(lane_limit=10))).jobs
    await store.record([factory.delivered(delivered)])
    await store.record([factory.dead(died)])
    states = {(await store.deliveries(each.message_id))[0].state for each in accepted}
    assert states == {DeliveryState.DELIVERED, DeliveryState.DEAD}


async def first_endpoint(url: str, app: Application, vault: Vault) -> None:
    """As the first release wrote it."""
    raw, endpoint_id = await open_raw(url), "ep_of_the_first_release"
    secrets = seal_secrets(vault, endpoint_id, (Secret(key=factory.secret_key()),))
    await raw.execute(
        "INSERT INTO endpoint (id, app_no, url, ordering, secrets, created_at, updated_at)"
        " VALUES ($1, $2, 'https://hooks.example.com/1', 'none', $3, $4, $4)",
        endpoint_id,
        app.no,
        secrets,
        factory.instant(),
    )
    await raw.execute("INSERT INTO lane (endpoint_no, app_no) SELECT no, app_no FROM endpoint")
    await raw.close()


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
