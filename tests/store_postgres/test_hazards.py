"""Hazards of lanes that only PostgreSQL has, from the design document. Each test fails without its remedy."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.errors import MigrationNeeded
from hookline.model.deliveries import LeasedDelivery, SlotBudgets
from hookline.model.endpoints import Endpoint
from hookline.model.states import Circuit, DeliveryState, EndpointStatus, Health
from hookline.model.verdicts import Delivered, Result
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from hookline.store.postgres.database import Connection, Database
from tests.conftest import OpenStoreWith
from tests.support import factory
from tests.support.counts import Counts, count
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

WAITING = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


async def lanes_of(scene: Scene, count: int) -> list[Endpoint]:
    return [await scene.endpoint(event_types=(f"lane.{index}",)) for index in range(count)]


async def send_to(scene: Scene, index: int, count: int) -> list[str]:
    return await scene.send(count, event_type=f"lane.{index}")


# ── deadlocks ──


async def test_recorders_of_the_same_lanes_lock_them_in_one_order(
    scene: Scene, database_url: str, vault: Vault, options: StoreOptions, other: RawPostgres
) -> None:
    lanes = await lanes_of(scene, 12)
    for index in range(len(lanes)):
        await send_to(scene, index, 4)
    jobs = sorted(await scene.claim_all(), key=lambda job: job.delivery_id)
    recorders = [await open_store(database_url, vault=vault, options=options) for _ in range(4)]
    batches = [[factory.retry(job) for job in jobs[turn::4]] for turn in range(4)]
    async with other.connection.transaction():
        # Every recorder blocks in the middle. A recorder that locks lanes in another order would deadlock here.
        await other.execute("SELECT FROM lane WHERE endpoint_no = $1 FOR UPDATE", lanes[6].no)
        recording = [
            asyncio.create_task(store.pipeline.record(batch[:: 1 if turn % 2 else -1]))
            for turn, (store, batch) in enumerate(zip(recorders, batches, strict=True))
        ]
        await until(scene, WAITING, 4)
    assert [(await task).recorded for task in recording] == [12] * 4
    for store in recorders:
        await store.close()  # a session reports its deadlocks when it ends
    assert await deadlocks(scene) == 0


async def until(scene: Scene, statement: str, count: int) -> None:
    """Poll until `statement` finds `count` rows. There is no event for a session that begins to wait, or ends."""
    async with asyncio.timeout(60):
        while len(await scene.raw.rows(statement)) != count:
            pass


async def deadlocks(scene: Scene) -> int:
    mine = "application_name = 'hookline' AND datname = current_database() AND query LIKE '%record%'"
    await until(scene, f"SELECT FROM pg_stat_activity WHERE {mine} AND state = 'active'", 0)
    found: int = await scene.raw.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return found


async def test_ingest_of_the_same_keys_in_another_order_does_not_deadlock(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    for turn in range(10):
        keys = [f"{turn}-{index}" for index in range(40)]
        one = [factory.new_message(scene.app.no, event_id=key, idempotency_key=key.encode()) for key in keys]
        two = [factory.new_message(scene.app.no, event_id=key, idempotency_key=key.encode()) for key in reversed(keys)]
        answers = await asyncio.gather(scene.store.pipeline.ingest(one), second.pipeline.ingest(two))
        assert sum(answer.status == "accepted" for batch in answers for answer in batch) == len(keys)
    assert await scene.raw.count("message") == 400
    assert await scene.raw.count("idempotency") == 400


async def test_claims_records_and_sweeps_at_once_do_not_deadlock(
    scene: Scene, second: Store, open_store_with: OpenStoreWith, options: StoreOptions
) -> None:
    await scene.endpoint(concurrency=7)
    await scene.endpoint()
    sweeper = await open_store_with(options)
    await scene.send(150)
    done = asyncio.Event()

    async def work(store: Store) -> None:
        while not finished(await count(store)):
            jobs = await scene.claim(20, by=store)
            await store.pipeline.record([factory.delivered(job) if job.sent else late(job) for job in jobs])

    async def sweep() -> None:
        while not done.is_set():
            await sweeper.upkeep.sweep_leases()
            await sweeper.upkeep.sweep_expired()
            await sweeper.upkeep.sweep_deleted()

    sweeping = asyncio.create_task(sweep())
    async with asyncio.timeout(120):
        await asyncio.gather(work(scene.store), work(second))
    done.set()
    await sweeping
    assert await scene.raw.count("delivery_done") == 300


def finished(counts: Counts) -> bool:
    return counts.pending + counts.scheduled + counts.delivering == 0


def late(job: LeasedDelivery) -> Result:
    """A failure that does not count against the endpoint's health, and is retried at once."""
    return factory.retry(job, after=0, health=Health.NONE)


# ── tokens ──


async def test_tokens_without_an_endpoint_do_not_stop_a_claim_and_are_consumed(scene: Scene) -> None:
    await scene.endpoint()
    await scene.raw.execute(
        "INSERT INTO wake (endpoint_no, at, floor)"
        " SELECT 900000 + n, now() - interval '1 hour', now() - interval '1 hour' FROM generate_series(1, 300) n"
    )
    await scene.send(3)
    assert len(await scene.claim(10)) == 3
    assert await scene.raw.count("wake", "endpoint_no > 900000") == 0


async def test_tokens_of_a_busy_lane_do_not_accumulate(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(30, deliver_at=(await scene.store.now()) + timedelta(hours=1))
    most = 0
    for _ in range(40):
        await scene.send(1)
        await scene.store.pipeline.record(factory.all_delivered(await scene.claim(4)))
        most = max(most, len(await scene.tokens(endpoint)))
    assert most <= 3


async def test_a_fresh_message_does_not_wait_behind_a_backlog(scene: Scene) -> None:
    await lanes_of(scene, 2)
    for _ in range(20):
        await send_to(scene, 0, 1000)
    await scene.claim(1)  # the backlog gets a new token
    (fresh,) = await send_to(scene, 1, 1)
    seen = [job.message_id for _ in range(2) for job in await scene.claim(1)]
    assert fresh in seen


async def test_a_delivery_that_another_transaction_locks_gets_a_new_token(scene: Scene, other: RawPostgres) -> None:
    endpoint = await scene.endpoint()
    first, second = await scene.send(2)
    async with other.connection.transaction():
        await other.execute("SELECT FROM delivery WHERE message_id = $1 FOR UPDATE", first)
        assert [job.message_id for job in await scene.claim()] == [second]
        (token,) = await scene.tokens(endpoint)
        assert token["floor"] == (await scene.delivery(first)).due_at
    assert [job.message_id for job in await scene.claim()] == [first]


async def test_a_delivery_that_commits_late_is_claimed(scene: Scene, other: RawPostgres) -> None:
    """The token is as old as its transaction. When it becomes visible, it is already older than the watermark."""
    await scene.endpoint()
    await scene.send(3)
    async with other.connection.transaction():
        await other.execute("INSERT INTO outbox (app, event_type, payload) VALUES ($1, 'late', '{}')", scene.app.id)
        assert len(await scene.claim_all()) == 3
    await scene.raw.execute("UPDATE wake SET at = at - interval '10 s'")
    assert (await scene.store.pipeline.relay(5)).relayed == 1
    await scene.raw.execute("UPDATE wake SET at = at - interval '10 s'")
    async with asyncio.timeout(60):  # the next full scan finds the token; a slow scan delays the one after it
        while not (late := await scene.claim_all()):
            pass
    assert len(late) == 1


async def test_a_locked_lane_does_not_delay_the_others(scene: Scene, other: RawPostgres) -> None:
    lanes = await lanes_of(scene, 2)
    await send_to(scene, 0, 3)
    (free,) = await send_to(scene, 1, 1)
    async with other.connection.transaction():
        await other.execute("SELECT FROM lane WHERE endpoint_no = $1 FOR NO KEY UPDATE", lanes[0].no)
        assert [job.message_id for job in await scene.claim()] == [free]
        await asyncio.wait_for(send_to(scene, 0, 2), 60)  # ingest never waits for the lock of a lane
    assert len(await scene.claim()) == 5


async def test_a_freed_concurrency_slot_wakes_a_sleeping_worker(scene: Scene, second: Store) -> None:
    await scene.endpoint(concurrency=2)
    await scene.send(5)
    jobs = await scene.claim()
    assert len(jobs) == 2
    assert await second.pipeline.arm()
    assert await scene.claim(by=second) == []
    sleeping = asyncio.create_task(second.pipeline.wait(120))
    await scene.record(*factory.all_delivered(jobs))
    await asyncio.wait_for(sleeping, 60)
    assert len(await scene.claim(by=second)) == 2


async def test_a_lane_refused_for_lack_of_slots_is_reported_and_woken_by_the_record(
    scene: Scene, second: Store
) -> None:
    endpoint = await scene.endpoint()
    await scene.send(6)
    jobs = await scene.claim(share=2)
    crowded = await scene.store.pipeline.claim(10, SlotBudgets(lane_limit=2, held_by_lane={endpoint.no: 2}))
    assert (crowded.jobs, crowded.refused) == ([], {endpoint.no: None})
    assert await second.pipeline.arm()
    sleeping = asyncio.create_task(second.pipeline.wait(120))
    await scene.store.pipeline.record(factory.all_delivered(jobs), wake=crowded.refused)
    await asyncio.wait_for(sleeping, 60)
    assert len(await scene.claim()) == 4


# ── leases ──


@pytest.mark.store_options(lease=20.0)
async def test_a_worker_that_stalled_past_its_lease_cannot_change_anything(scene: Scene, second: Store) -> None:
    endpoint = await scene.endpoint(concurrency=5)
    (message,) = await scene.send()
    (stalled,) = await scene.claim()
    await scene.age(21)
    assert (await second.upkeep.sweep_leases()).leases == 1
    (again,) = await scene.claim(by=second)
    late = await scene.store.pipeline.record([factory.retry(stalled)])
    assert (late.recorded, late.stale) == (0, 1)
    assert await scene.store.pipeline.release([stalled]) == 0
    assert await scene.store.history.attempts(message) == []
    lane = await scene.lane(endpoint)
    assert (lane.failures, lane.in_flight) == (0, 1)
    await second.pipeline.record([factory.delivered(again)])
    assert await scene.state(message) == DeliveryState.DELIVERED


async def test_a_stale_and_a_live_claim_of_one_delivery_in_one_batch(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (stale,) = await scene.claim()
    assert await second.pipeline.release([stale]) == 1
    (live,) = await scene.claim()
    report = await scene.store.pipeline.record([factory.dead(stale), factory.retry(live), factory.retry(live)])
    assert (report.recorded, report.stale) == (1, 2)
    assert [attempt.outcome for attempt in await scene.store.history.attempts(message)] == ["retry"]


async def test_of_twenty_claimers_one_gets_the_probe(
    scene: Scene, open_store_with: OpenStoreWith, options: StoreOptions
) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    for _ in range(20):
        await scene.send(2)  # one token for each claimer
    await scene.age(5000)
    stores = [await open_store_with(options) for _ in range(5)]
    batches = await asyncio.gather(*(scene.claim(10, by=store) for store in stores for _ in range(4)))
    assert [job.probe for jobs in batches for job in jobs] == [True]
    assert (await scene.lane(endpoint)).circuit == Circuit.HALF_OPEN


# ── responses of endpoints ──


async def test_nul_and_broken_text_from_an_endpoint_are_stored_and_block_nothing(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(3)
    nul, broken, plain = await scene.claim()
    report = await scene.store.pipeline.record(
        [
            factory.delivered(
                nul, body=b"\x00\xff\x00", detail="a\x00b", headers={"x-odd": "c\x00d"}, address="127.0.0.1\x00"
            ),
            factory.delivered(broken, detail="half \ud800", headers={"x-half": "\udfff"}),
            factory.delivered(plain),
        ]
    )
    assert (report.recorded, report.refused) == (3, ())
    (attempt,) = await scene.store.history.attempts(nul.message_id)
    assert (attempt.response_body, attempt.detail) == (b"\x00\xff\x00", "a\ufffdb")


async def test_one_row_that_the_database_refuses_does_not_stop_the_batch(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(9)
    jobs = await scene.claim()
    results = factory.all_delivered(jobs)
    results[4] = factory.result(jobs[4], Delivered(), Health.GOOD, factory.answered(2**40))
    report = await scene.store.pipeline.record(results)
    assert (report.recorded, report.refused) == (8, (jobs[4].delivery_id,))


# ── tables of another release ──


async def test_a_missing_type_of_an_applied_migration_is_reported_as_migration_needed(scene: Scene) -> None:
    """Such a database exists after somebody edits a migration that was already applied."""
    await scene.endpoint()
    await scene.send()
    jobs = await scene.claim()
    await scene.raw.execute("DROP TYPE hookline.receipt")
    with pytest.raises(MigrationNeeded, match="hookline migrate"):
        await scene.record(*factory.all_delivered(jobs))


# ── an application that is deleted ──


async def test_an_endpoint_created_while_its_application_is_deleted_is_deleted_too(
    scene: Scene, second: Store, other: RawPostgres
) -> None:
    """Otherwise an endpoint without an application would remain, and nobody could reach it."""
    async with other.connection.transaction():
        await other.execute("LOCK TABLE hookline.lane IN SHARE ROW EXCLUSIVE MODE")
        making = asyncio.create_task(scene.endpoint())
        await until(scene, WAITING, 1)
        deleting = asyncio.create_task(second.catalogue.delete_application(scene.app.no))
        await until(scene, WAITING, 2)
    made, _ = await asyncio.gather(making, deleting)
    assert await scene.store.catalogue.endpoint(scene.app.no, made.id) is None
    assert await scene.raw.value("SELECT status FROM lane WHERE endpoint_no = $1", made.no) == EndpointStatus.DELETED


# ── an application's settings ──


async def test_hookline_uses_read_committed_in_a_database_whose_default_is_serializable(
    empty_url: str, vault: Vault
) -> None:
    """Hookline may live in a schema of an application's database. Serializable transactions of Hookline would cause
    serialization failures on both sides."""
    raw = await RawPostgres.connect(empty_url)
    name = await raw.value("SELECT current_database()")
    await raw.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    database = Database(empty_url, vault, StoreOptions())
    await database.open()

    async def isolation(connection: Connection) -> str:
        level: str = await connection.fetchval("SHOW transaction_isolation")
        return level

    kinds = [
        database.alone(isolation),
        database.alone(isolation, any_scan=True),
        database.alone(isolation, cached_plans=True),
    ]
    assert {await kind for kind in kinds} == {"read committed"}
    await database.close()
    await raw.close()
