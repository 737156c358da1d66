"""Sleeping workers and publishers. Every sleeping worker is notified. Nobody notifies while all workers are busy."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from hookline.model.deliveries import SlotBudgets
from hookline.store import Store, StoreOptions
from hookline.store.postgres import PostgresStore
from hookline.store.postgres import claim as claiming
from tests.conftest import OpenStoreWith
from tests.support import factory
from tests.support.notifications import notifications
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

LONG = 120.0  # far longer than any test, so that a wait that only its timeout ends is a failure
SOON = 60.0
MANY = 21
HELD = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 1214541"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


@pytest.fixture
async def workers(store: Store, open_store_with: OpenStoreWith) -> list[Store]:
    return [await open_store_with(StoreOptions(pool_size=1)) for _ in range(MANY)]


async def holders(scene: Scene) -> list[int]:
    return [row["pid"] for row in await scene.raw.rows(HELD)]


async def held_by(scene: Scene, count: int) -> None:
    """Poll until `count` sessions hold the lock of sleepers. PostgreSQL has no event for its release."""
    async with asyncio.timeout(SOON):
        while len(await holders(scene)) != count:
            pass


def asleep(worker: Store) -> asyncio.Task[None]:
    return asyncio.create_task(worker.pipeline.wait(LONG))


# ── many sleepers ──


async def test_any_number_of_workers_can_sleep_and_each_is_notified(scene: Scene, workers: list[Store]) -> None:
    await scene.endpoint()
    assert [await worker.pipeline.arm() for worker in workers] == [True] * MANY
    waiting = [asleep(worker) for worker in workers]
    await scene.send()
    await asyncio.wait_for(asyncio.gather(*waiting), SOON)
    assert len(await scene.claim()) == 1


@pytest.mark.parametrize("age", [0, 1, 5, 3600])
async def test_a_worker_that_is_about_to_sleep_finds_a_wake_token_of_any_age(scene: Scene, age: int) -> None:
    """The time of a wake token is the start of its transaction, which may have taken long to commit."""
    await scene.endpoint()
    assert await scene.claim() == []
    await scene.send()
    await scene.raw.execute("UPDATE wake SET at = now() - make_interval(secs => $1), floor = at", float(age))
    assert await scene.store.pipeline.arm()
    claim: Any = scene.store.pipeline.claim
    claim.__self__._full_scan_cost = 0.0  # on a busy machine, the first scan may be slow, and the next one then waits
    assert len(await scene.claim()) == 1


async def test_a_worker_that_is_about_to_sleep_learns_when_the_next_delivery_is_due(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send()
    [job] = await scene.claim()
    await scene.record(factory.retry(job, after=300))
    assert await scene.store.pipeline.arm()
    batch = await scene.store.pipeline.claim(5, SlotBudgets(lane_limit=100))
    assert (batch.jobs, batch.next_at) == ([], await scene.raw.value("SELECT at FROM wake"))


@pytest.mark.parametrize("place", [0, 15, 16, MANY - 1])
async def test_the_last_sleeping_worker_is_notified(scene: Scene, workers: list[Store], place: int) -> None:
    """The workers that fell asleep beside the last one have woken by then. A publisher must detect each sleeper
    separately."""
    await scene.endpoint()
    for worker in workers:
        assert await worker.pipeline.arm()
    last = asleep(workers.pop(place))
    for worker in workers:
        worker.pipeline.wake()
        await worker.pipeline.wait(LONG)
    await held_by(scene, 1)
    await scene.send()
    await asyncio.wait_for(last, SOON)
    assert len(await scene.claim()) == 1


async def test_a_worker_cannot_fall_asleep_while_a_transaction_adds_work(
    scene: Scene, workers: list[Store], other: RawPostgres
) -> None:
    """The open transaction may have checked for sleepers already. A worker that slept now would get no notification."""
    async with other.connection.transaction():
        await other.execute("SELECT announce()")
        assert [await worker.pipeline.arm() for worker in workers[:3]] == [False] * 3
        assert len(await holders(scene)) == 1  # only the transaction's own lock: a worker that could not arm holds none
    assert [await worker.pipeline.arm() for worker in workers[:3]] == [True] * 3


async def test_a_sleeping_worker_is_notified_although_another_failed_to_fall_asleep(
    scene: Scene, workers: list[Store], other: RawPostgres
) -> None:
    sleeper, late, *_ = workers
    assert await sleeper.pipeline.arm()
    waiting = asleep(sleeper)
    async with other.connection.transaction():
        await other.execute("SELECT announce()")
        assert not await late.pipeline.arm()
        await late.pipeline.wait(0)
    await asyncio.wait_for(waiting, SOON)


async def test_publishers_do_not_mistake_each_other_for_sleepers(
    scene: Scene, second: Store, other: RawPostgres
) -> None:
    await scene.endpoint()
    async with notifications(scene.url, "hookline_wake") as heard, other.connection.transaction():
        await other.execute("SELECT announce()")
        await second.pipeline.ingest(factory.new_messages(scene.app.no, 2))
        await other.execute("SELECT announce()")
    assert heard == []
    assert len(await scene.claim()) == 2


# ── busy workers ──


async def test_a_worker_that_finds_work_after_arming_is_not_notified(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send()
    assert await scene.store.pipeline.arm()
    assert len(await scene.claim()) == 1
    await held_by(scene, 0)
    async with notifications(scene.url, "hookline_wake") as heard:
        await scene.send(3)
    assert heard == []
    assert len(await scene.claim()) == 3


async def test_a_worker_that_claims_nothing_after_arming_stays_asleep(scene: Scene) -> None:
    await scene.endpoint()
    assert await scene.store.pipeline.arm()
    assert await scene.claim() == []
    assert len(await holders(scene)) == 1
    async with notifications(scene.url, "hookline_wake") as heard:
        await scene.send()
    assert heard == [""]
    assert len(await scene.claim()) == 1


async def test_the_check_before_sleep_ignores_due_wake_tokens_of_the_given_lanes(scene: Scene) -> None:
    """A worker gives the silent lanes that hold slots. Otherwise it would run a whole claim for each of their tokens."""
    busy, other = await scene.endpoint(channels=["busy"]), await scene.endpoint(channels=["other"])
    database = cast(PostgresStore, scene.store)._db
    since = await scene.store.now() - timedelta(minutes=1)

    async def next_at(*ignored: int) -> datetime | None:
        async with database.cached_plans() as connection:
            found: datetime | None = (await connection.fetchrow(database.sql["claim_peek"], since, ignored))["next_at"]
            return found

    await scene.send(channels=["busy"])
    (token,) = await scene.tokens(busy)
    assert (await next_at(), await next_at(other.no)) == (token["at"], token["at"])
    assert await next_at(busy.no) is None
    await scene.send(channels=["other"])
    assert await next_at(busy.no) == (await scene.tokens(other))[0]["at"]
    later = await scene.store.now() + timedelta(minutes=1)
    await scene.raw.execute("UPDATE wake SET at = $1", later)
    assert await next_at(busy.no, other.no) == later


async def test_a_worker_that_sleeps_again_holds_one_lock(scene: Scene) -> None:
    await scene.endpoint()
    for _ in range(5):
        assert await scene.store.pipeline.arm()
        assert await scene.store.pipeline.arm()
        assert len(await holders(scene)) == 1
        await scene.send()
        await asyncio.wait_for(scene.store.pipeline.wait(LONG), SOON)
        assert len(await scene.claim()) == 1
    await held_by(scene, 0)


async def test_the_claim_after_a_notification_does_not_wait_for_the_lock(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "_ANSWER", LONG)
    await scene.endpoint()
    assert await scene.store.pipeline.arm()
    (listener,) = await holders(scene)
    scene.store.pipeline.wake()
    with stopped(listener):
        await scene.send()
        await asyncio.wait_for(scene.store.pipeline.wait(LONG), SOON)
        assert len(await asyncio.wait_for(scene.claim(), SOON)) == 1
        assert await holders(scene) == [listener]
    await held_by(scene, 0)
    assert await scene.store.pipeline.arm()


@contextmanager
def stopped(backend: int) -> Iterator[None]:
    """Stop a server process, so that its session does not answer."""
    os.kill(backend, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(backend, signal.SIGCONT)


async def test_a_sleeping_worker_whose_session_ended_can_sleep_again(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    assert await scene.store.pipeline.arm()
    waiting = asleep(scene.store)
    (listener,) = await holders(scene)
    await scene.raw.execute("SELECT pg_terminate_backend($1)", listener)
    await asyncio.wait_for(waiting, SOON)
    assert await scene.store.pipeline.arm()
    assert await holders(scene) != [listener]
    waiting = asleep(scene.store)
    await second.pipeline.ingest(factory.new_messages(scene.app.no, 1))
    await asyncio.wait_for(waiting, SOON)
    assert len(await scene.claim()) == 1


async def test_a_store_may_close_while_it_releases_its_lock(scene: Scene, second: Store) -> None:
    assert await second.pipeline.arm()
    await second.pipeline.wait(0)
    await second.close()
    await held_by(scene, 0)
