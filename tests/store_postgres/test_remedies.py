"""Remedies whose absence shows only under load: the watermark, session settings, and checks repeated under a lock."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from hookline.model.dead import DeadFilter
from hookline.model.deliveries import SlotBudgets
from hookline.model.states import DeliveryState, Reason
from hookline.store import Page, Store
from hookline.store.postgres import PostgresStore
from hookline.store.postgres import claim as claiming
from tests.support import factory
from tests.support.raw import RawPostgres
from tests.support.scene import Scene


def engine_of(scene: Scene) -> PostgresStore:
    return cast(PostgresStore, scene.store)


# ── the watermark ──

DEAD_TOKENS = 5_000
READ = "SELECT pg_stat_get_xact_tuples_returned('hookline.wake_at'::regclass)"


async def tokens_read(scene: Scene, *, jobs: int) -> int:
    """Return the number of index entries that one claim reads, dead ones included."""
    store = engine_of(scene)
    async with store._db.indexed() as connection, connection.transaction():
        # includes reads that earlier transactions of the session have not reported yet
        before: int = await connection.fetchval(READ)
        batch = await store._claim._claim(connection, 10, SlotBudgets(lane_limit=10))
        assert len(batch.jobs if batch else []) == jobs
        after: int = await connection.fetchval(READ)
    return after - before


async def test_a_claim_does_not_read_dead_tokens(
    scene: Scene, other: RawPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a long transaction the dead tokens cannot be vacuumed. Each claim would read all of them."""
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
        assert await tokens_read(scene, jobs=1) >= DEAD_TOKENS  # the first claim reads everything
        for count in (3, 2):
            await scene.send(count)
            assert await tokens_read(scene, jobs=count) < 100
        # a full scan that took long, as with millions of tokens, is not repeated soon
        engine_of(scene)._claim._full_scan_cost = 1.0
        assert await tokens_read(scene, jobs=0) < 100


# ── session settings ──

HOT = {
    "plan_cache_mode": "force_custom_plan",  # a generic plan made on empty tables would be kept for ever
    "jit": "off",  # JIT compilation of a claim takes a hundred times as long as running it
    "enable_seqscan": "off",  # with statistics of an empty table, the planner would read the whole backlog
    "enable_bitmapscan": "off",  # a bitmap scan would collect all due deliveries before LIMIT stops it
}


async def test_hot_sessions_restrict_the_planner(scene: Scene) -> None:
    async with engine_of(scene)._db.indexed() as connection:
        assert {name: await connection.fetchval(f"SHOW {name}") for name in HOT} == HOT


async def test_any_scan_sessions_leave_the_planner_its_defaults(scene: Scene) -> None:
    async with engine_of(scene)._db.any_scan() as connection:
        found = {name: await connection.fetchval(f"SHOW {name}") for name in HOT}
    assert found == HOT | {"enable_seqscan": "on", "enable_bitmapscan": "on"}


# ── a payload that is gone ──


@pytest.mark.parametrize("concurrency", [None, 1])
async def test_a_delivery_whose_payload_is_gone_dies_and_delays_no_other(scene: Scene, concurrency: int | None) -> None:
    endpoint = await scene.endpoint(concurrency=concurrency)
    gone, kept = await scene.send(2)
    await scene.raw.execute("DELETE FROM message WHERE id = $1", gone)
    jobs = await scene.claim() or await scene.claim()
    assert [job.message_id for job in jobs] == [kept]
    (letter,) = await scene.store.repair.dead_letters(DeadFilter(), Page())
    assert (letter.message_id, letter.reason, letter.detail) == (gone, Reason.UNSENDABLE, "the payload is gone")
    assert (await scene.lane(endpoint)).in_flight == (1 if concurrency else 0)
    await scene.record(*factory.all_delivered(jobs))
    assert await scene.raw.count("delivery") == 0


# ── the sweep checks again under the lock ──


@pytest.mark.store_options(lease=20.0)
async def test_a_sweep_keeps_changes_made_after_its_first_read(scene: Scene, second: Store, other: RawPostgres) -> None:
    """The sweep reads without locks, then waits for a lane. Meanwhile one delivery is recorded and another is leased
    again."""
    limited = await scene.endpoint(concurrency=9, event_types=("limited",))
    await scene.endpoint(event_types=("free",))
    (lost,) = await scene.send(event_type="limited")
    recorded, leased = await scene.send(2, event_type="free")
    jobs = {job.message_id: job for job in await scene.claim_all()}
    await scene.age(21)
    async with other.connection.transaction():
        await other.execute("SELECT FROM lane WHERE endpoint_no = $1 FOR UPDATE", limited.no)
        sweeping = asyncio.create_task(second.upkeep.sweep_leases())
        await waits_for_a_lock(scene)
        assert (await scene.record(factory.retry(jobs[recorded], after=700))).recorded == 1
        assert await scene.store.pipeline.release([jobs[leased]]) == 1
        (again,) = await scene.claim()
    assert (await sweeping).leases == 1
    states = [await scene.state(message) for message in (lost, recorded, leased)]
    assert states == [DeliveryState.PENDING, DeliveryState.SCHEDULED, DeliveryState.DELIVERING]
    assert (await scene.delivery(recorded)).sent == 1
    assert (await scene.record(factory.delivered(again))).recorded == 1


async def waits_for_a_lock(scene: Scene) -> None:
    """Poll until a session waits for a lock. PostgreSQL has no event for it."""
    waiting = "datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(60):
        while not await scene.raw.count("pg_stat_activity", waiting):
            pass


# ── sleep ──


async def test_a_token_that_becomes_due_during_an_empty_claim_ends_the_sleep_at_once(
    scene: Scene, database_url: str
) -> None:
    """The token is in the future when the claim looks for due tokens, and due when it looks for the next one.

    Without the remedy, a throttled lane slept until the next poll, so recoveries above 100 starts per second stalled.
    """
    endpoint = await scene.endpoint()
    await scene.send()
    other = await RawPostgres.connect(database_url)
    try:
        async with other.connection.transaction():
            await other.execute("SELECT FROM lane WHERE endpoint_no = $1 FOR UPDATE", endpoint.no)
            batch = await scene.store.pipeline.claim(10, SlotBudgets(lane_limit=10))
            assert batch.jobs == []
            assert batch.next_at is not None
            assert batch.next_at <= batch.now
    finally:
        await other.close()
    assert len(await scene.claim()) == 1
