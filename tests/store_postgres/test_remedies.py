"""Remedies that nothing shows until the day they are needed: the watermark, the sessions' settings, looks under a lock."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import cast

import pytest

from hookline.model import DeadFilter, SlotBudgets
from hookline.model.states import DeliveryState, Reason
from hookline.rules.claim.division import Division
from hookline.store.postgres import PostgresStore
from hookline.store.postgres import claim as claiming
from hookline.store.protocols import Page, Store
from tests.support import factory
from tests.support.raw import RawPostgres
from tests.support.scene import Scene


def engine_of(scene: Scene) -> PostgresStore:
    return cast(PostgresStore, scene.store)


# ── the watermark ──

DEAD_TOKENS = 5_000
READ = "SELECT pg_stat_get_xact_tuples_returned('hookline.wake_at'::regclass)"


async def tokens_read(scene: Scene, *, jobs: int) -> int:
    """Entries of the index that one claim looks at, dead ones too."""
    store = engine_of(scene)

    def divide(now: datetime) -> Division:
        return Division(now=now, want=10, budgets=SlotBudgets(lane_limit=10), policy=store._options.circuit)

    async with store._db.indexed() as connection, connection.transaction():
        before: int = await connection.fetchval(READ)  # what earlier transactions of the session have not reported yet
        batch = await store._claim(connection, 10, divide)
        assert len(batch.jobs if batch else []) == jobs
        after: int = await connection.fetchval(READ)
    return after - before


async def test_a_claim_does_not_wade_through_dead_tokens(
    scene: Scene, other: RawPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a long transaction nobody can clear them away, and each claim would read all of them."""
    monkeypatch.setattr(claiming, "_FULL_SCAN_EVERY", 3600.0)
    await scene.endpoint()
    async with other.connection.transaction(isolation="repeatable_read"):
        await other.value("SELECT count(*) AS n FROM wake")
        await scene.raw.execute(
            "INSERT INTO wake (endpoint_no, at, floor)"
            f" SELECT 1, now() - interval '1 minute', now() FROM generate_series(1, {DEAD_TOKENS})"
        )
        await scene.raw.execute("DELETE FROM wake")
        await scene.send()
        assert await tokens_read(scene, jobs=1) >= DEAD_TOKENS  # the first reads everything
        for count in (3, 2):
            await scene.send(count)
            assert await tokens_read(scene, jobs=count) < 100
        engine_of(
            scene
        )._full_scan_cost = 1.0  # as with millions of them: not again at once, though there is nothing else
        assert await tokens_read(scene, jobs=0) < 100


# ── the sessions ──

HOT = {
    "plan_cache_mode": "force_custom_plan",  # a plan made while the tables were empty would stay for ever
    "jit": "off",  # compiling a claim takes a hundred times as long as running it
    "enable_seqscan": "off",  # statistics from an empty table make the planner read the whole backlog
    "enable_bitmapscan": "off",  # a bitmap is built whole before LIMIT ends it: all that is due, for a hundred of it
}


async def test_hot_sessions_keep_the_planner_from_its_mistakes(scene: Scene) -> None:
    async with engine_of(scene)._db.indexed() as connection:
        assert {name: await connection.fetchval(f"SHOW {name}") for name in HOT} == HOT


async def test_calm_sessions_leave_the_planner_its_freedom(scene: Scene) -> None:
    async with engine_of(scene)._db.calm() as connection:
        found = {name: await connection.fetchval(f"SHOW {name}") for name in HOT}
    assert found == HOT | {"enable_seqscan": "on", "enable_bitmapscan": "on"}


# ── a payload that is gone ──


@pytest.mark.parametrize("concurrency", [None, 1])
async def test_a_delivery_whose_payload_is_gone_dies_and_holds_nobody_up(scene: Scene, concurrency: int | None) -> None:
    endpoint = await scene.endpoint(concurrency=concurrency)
    gone, kept = await scene.send(2)
    await scene.raw.execute("DELETE FROM message WHERE id = $1", gone)
    jobs = await scene.claim() or await scene.claim()
    assert [job.message_id for job in jobs] == [kept]
    (letter,) = await scene.store.dead_letters(DeadFilter(), Page())
    assert (letter.message_id, letter.reason, letter.detail) == (gone, Reason.UNSENDABLE, "the payload is gone")
    assert (await scene.lane(endpoint)).in_flight == (1 if concurrency else 0)
    await scene.record(*factory.all_delivered(jobs))
    assert await scene.raw.count("delivery") == 0


# ── the sweep's look under the lock ──


@pytest.mark.store_options(lease=20.0)
async def test_what_happened_since_the_sweep_looked_stays(scene: Scene, second: Store, other: RawPostgres) -> None:
    """It reads without locks, and waits for a lane. Meanwhile one is recorded, and one is leased again by another worker."""
    limited = await scene.endpoint(concurrency=9, event_types=("limited",))
    await scene.endpoint(event_types=("free",))
    (lost,) = await scene.send(event_type="limited")
    recorded, leased = await scene.send(2, event_type="free")
    jobs = {job.message_id: job for job in await scene.claim_all()}
    await scene.age(21)
    async with other.connection.transaction():
        await other.execute("SELECT FROM lane WHERE endpoint_no = $1 FOR UPDATE", limited.no)
        sweeping = asyncio.create_task(second.sweep_leases())
        await waits_for_a_lock(scene)
        assert (await scene.record(factory.retry(jobs[recorded], after=700))).recorded == 1
        assert await scene.store.release([jobs[leased]]) == 1
        (again,) = await scene.claim()
    assert (await sweeping).leases == 1
    states = [await scene.state(message) for message in (lost, recorded, leased)]
    assert states == [DeliveryState.PENDING, DeliveryState.SCHEDULED, DeliveryState.DELIVERING]
    assert (await scene.delivery(recorded)).sent == 1
    assert (await scene.record(factory.delivered(again))).recorded == 1


async def waits_for_a_lock(scene: Scene) -> None:
    """Nobody tells when a session begins to wait."""
    waiting = "datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(60):
        while not await scene.raw.count("pg_stat_activity", waiting):
            pass


# ── the sleep ──


async def test_a_token_that_fell_due_during_an_empty_claim_ends_the_sleep_at_once(
    scene: Scene, database_url: str
) -> None:
    """The claim saw nothing due, and by the time it asks for the next token this one is not in the future any more.

    Left out, a throttled lane slept until the poll: every recovery past 100 starts a second stalled for a second at a time.
    """
    endpoint = await scene.endpoint()
    await scene.send()
    other = await RawPostgres.connect(database_url)
    try:
        async with other.connection.transaction():
            await other.execute("SELECT FROM lane WHERE endpoint_no = $1 FOR UPDATE", endpoint.no)
            batch = await scene.store.claim(10, SlotBudgets(lane_limit=10))
            assert batch.jobs == []
            assert batch.next_at is not None
            assert batch.next_at <= batch.now
    finally:
        await other.close()
    assert len(await scene.claim()) == 1
