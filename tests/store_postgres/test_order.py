"""Ordering on PostgreSQL: races for the next delivery of a key, and the cost for messages with and without keys."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import cast

from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint, Ordering
from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState
from hookline.store import Store
from hookline.store.postgres import PostgresStore
from hookline.store.postgres.ingest import _columns
from hookline.store.postgres.record import _receipt
from hookline.store.sql import load
from tests.store_postgres.plans import Plan, buffers, explain, indexes, nodes, scanned
from tests.support import factory
from tests.support.counts import Counts, count
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

SQL = load("postgres")
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
OF_ORDER = {"delivery_active", "delivery_queued", "delivery_queued_expires", "dead_letter_blocks"}


def engine_of(scene: Scene) -> PostgresStore:
    return cast(PostgresStore, scene.store)


async def send(scene: Scene, key: str | None = "k") -> str:
    (message,) = await scene.send(1, ordering_key=key)
    return message


async def only(scene: Scene) -> LeasedDelivery:
    (job,) = await scene.claim_all()
    return job


# ── races ──


async def test_a_record_that_does_not_see_an_uncommitted_message_loses_no_turn(
    scene: Scene, other: RawPostgres
) -> None:
    """Ingest has inserted but not committed when the last active delivery is recorded and a claim runs."""
    endpoint = await scene.endpoint()
    await send(scene)
    job = await only(scene)
    fresh = factory.new_message(scene.app.no, ordering_key="k")
    async with other.connection.transaction():
        assert await other.connection.fetch(SQL["ingest"], *_columns([fresh]), 3600.0, 3600.0, None, None, None, 60.0)
        await scene.record(factory.delivered(job))
        assert await scene.claim_all() == []  # the claim consumes the record's token, and sees no delivery to promote
        assert await scene.tokens(endpoint) == []
    assert (await only(scene)).message_id == fresh.id


async def test_a_claim_that_does_not_see_an_uncommitted_record_loses_no_turn(scene: Scene, other: RawPostgres) -> None:
    """A claim takes ingest's token before the record of the last active delivery has committed."""
    endpoint = await scene.endpoint()
    await send(scene)
    result = factory.delivered(await only(scene))
    async with other.connection.transaction():
        plain = ([_receipt(result)], [endpoint.no], [endpoint.no], ['"k"'])
        assert await other.connection.fetchval(SQL["record_plain"], *plain) == 1
        behind = await send(scene)
        # the claim consumes ingest's token while the first delivery of the key is still active
        assert await scene.claim_all() == []
        assert await scene.tokens(endpoint) == []
    assert (await only(scene)).message_id == behind


async def test_a_claim_waits_for_a_sweep_that_expires_the_first_of_a_key(scene: Scene, other: RawPostgres) -> None:
    """The first queued delivery expires while a claim is about to promote it. The claim must promote the next one."""
    await scene.endpoint()
    short = factory.new_message(scene.app.no, ordering_key="k", policy=PolicyOverride(max_age=100.0))
    await scene.ingest([short])
    behind = await send(scene)
    await scene.age(150)
    async with other.connection.transaction():
        assert len(await other.connection.fetch(SQL["sweep_expired"], 10)) == 1
        claiming = asyncio.create_task(scene.claim())
        await waiting_for_a_lock(scene)
    assert [job.message_id for job in await claiming + await scene.claim_all()] == [behind]


async def waiting_for_a_lock(scene: Scene) -> None:
    """Poll until a session waits for a lock. PostgreSQL has no event for it."""
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(60):
        while not await scene.raw.rows(waiting):
            pass


async def test_one_relay_at_a_time_takes_the_outbox_rows_with_keys(scene: Scene, other: RawPostgres) -> None:
    await scene.endpoint()
    for key in ("k", "k", None):
        await scene.raw.execute(
            "INSERT INTO outbox (app, event_type, payload, ordering_key) VALUES ($1, 'order.paid', '{}', $2)",
            scene.app.id,
            key,
        )
    async with other.connection.transaction():
        assert await other.connection.fetchval(SQL["relay_guard"])  # another relay holds the guard lock
        assert (await scene.store.pipeline.relay(100)).relayed == 1
        assert await scene.raw.count("outbox", "ordering_key IS NOT NULL") == 2
    assert (await scene.store.pipeline.relay(100)).relayed == 2


async def test_one_relay_at_a_time_takes_the_outbox_rows_of_a_fifo_endpoint(scene: Scene, other: RawPostgres) -> None:
    """Every outbox row of the application is ordered, with or without a key, and whether it names the application by id
    or uid."""
    org_id = scene.app.org_id
    by_uid = await scene.store.catalogue.create_application(org_id, factory.new_application(uid="in-line"))
    free = await scene.store.catalogue.create_application(org_id, factory.new_application())
    for app in (scene.app, by_uid):
        await scene.store.catalogue.create_endpoint(app.no, factory.new_endpoint(ordering=Ordering.FIFO))
    await scene.store.catalogue.create_endpoint(free.no, factory.new_endpoint())
    for app in (scene.app.id, "in-line", free.id):
        await scene.raw.execute("INSERT INTO outbox (app, event_type, payload) VALUES ($1, 'order.paid', '{}')", app)
    async with other.connection.transaction():
        assert await other.connection.fetchval(SQL["relay_guard"])  # another relay holds the guard lock
        assert (await scene.store.pipeline.relay(100)).relayed == 1
        assert await scene.raw.count("outbox") == 2
    assert (await scene.store.pipeline.relay(100)).relayed == 2


async def test_concurrent_claims_records_ingests_and_sweeps_keep_the_order(scene: Scene, second: Store) -> None:
    """Claims, records, ingests and sweeps run together without a deadlock. Each key keeps its order, and the audit
    finds nothing."""
    for _ in range(2):
        await scene.endpoint()
    seen: dict[tuple[int, str], list[int]] = {}
    turns: dict[str, int] = {}
    place: dict[str, int] = {}
    published = asyncio.Event()

    async def publish(store: Store) -> None:
        for turn in range(25):
            messages = [factory.new_message(scene.app.no, ordering_key=f"k{turn % 5}") for _ in range(3)]
            for message in messages:
                turns[f"k{turn % 5}"] = place[message.id] = turns.get(f"k{turn % 5}", 0) + 1
            await store.pipeline.ingest(messages)
        published.set()

    async def work(store: Store) -> None:
        while not published.is_set() or any(open_of(await count(store))):
            jobs = await scene.claim(20, by=store)
            for job in jobs:
                seen.setdefault((job.endpoint_no, job.ordering_key or ""), []).append(place[job.message_id])
            await store.pipeline.record(
                [factory.delivered(job) if job.sent else factory.retry(job, after=0) for job in jobs]
            )
            await store.upkeep.sweep_expired()

    async with asyncio.timeout(120):
        await asyncio.gather(publish(second), work(scene.store), work(second))
    assert len(seen) == 10
    for order in seen.values():
        assert order == sorted(order)
        assert set(order) == set(range(1, 16))
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []


def open_of(counts: Counts) -> tuple[int, ...]:
    return counts.queued, counts.pending, counts.scheduled, counts.delivering


# ── cost ──


async def test_messages_without_keys_do_not_touch_the_indexes_of_ordering(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    store = engine_of(scene)
    for _ in range(5):
        await scene.send(100)
        await scene.record(*factory.all_delivered(await scene.claim_all()))
    await scene.send(100)
    now = await scene.store.now()
    new = _columns(factory.new_messages(scene.app.no, 5))
    ingest = await explain(store, "ingest", *new, 3600.0, 3600.0, None, None, None, 60.0)
    lanes = await explain(store, "claim_lanes", BEGINNING, 64, 0)
    take = await explain(
        store, "claim_take", [endpoint.no], [50], [now - timedelta(hours=1)], [now], [], 7, 60.0, [scene.app.no]
    )
    jobs = await scene.claim(50)
    receipts = sorted(_receipt(factory.delivered(job)) for job in jobs)
    plain = await explain(store, "record_plain", receipts, [endpoint.no], [], [])
    assert indexes(take) == {"delivery_due", "delivery_pkey"}
    assert indexes(plain) == {"delivery_pkey", "lane_pkey"}
    assert indexes(lanes) <= {"wake_at", "wake_endpoint", "wake_pkey", "lane_pkey"}
    assert not indexes(ingest) & OF_ORDER
    for name in OF_ORDER:  # an index of one page has never held a row
        assert await scene.raw.value("SELECT pg_relation_size($1::text::regclass) AS size", f"hookline.{name}") == 8192
    await scene.store.pipeline.release(jobs)


async def test_a_promotion_costs_the_same_however_many_deliveries_wait(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await queue(scene, endpoint, keys=400, deep=50)
    await scene.raw.execute("ANALYZE")
    keys = [f"k{number}" for number in range(1, 21)]
    plan = await explain(engine_of(scene), "promote", [endpoint.no] * len(keys), keys)
    assert scanned(plan) <= {"endpoint"}
    assert indexes(plan) >= {"delivery_queued", "delivery_active", "delivery_pkey"}
    assert buffers(plan) < 40 * len(keys)
    for name in ("sweep_expired", "sweep_deleted"):
        plan = await explain(engine_of(scene), name, 100)
        assert scanned(plan) == set()
        assert buffers(plan) < 1000, name
    await scene.raw.execute("DELETE FROM delivery")


async def test_old_statistics_do_not_make_a_promotion_expensive(scene: Scene) -> None:
    """The statistics were collected while all deliveries were queued. The plan must still not compare a key with all
    active deliveries."""
    endpoint = await scene.endpoint()
    await queue(scene, endpoint, keys=2000, deep=3)
    await scene.raw.execute("ANALYZE")
    store, keys = engine_of(scene), [f"k{number}" for number in range(100)]
    await scene.raw.execute("UPDATE delivery SET state = 0 WHERE message_seq <= 2000")
    await scene.raw.execute("DELETE FROM delivery WHERE state = 0 AND ordering_key = ANY ($1)", keys)
    plan = await explain(store, "promote", [endpoint.no] * len(keys), keys)
    assert most_read(plan) <= 2 * len(keys)
    now = await scene.store.now()
    take = ("claim_take", [endpoint.no], [100], [now - timedelta(hours=1)], [now], [], 7, 60.0, [scene.app.no])
    plan = await explain(store, *take)
    assert "delivery_due" in indexes(plan)
    assert most_read(plan) <= 2 * len(keys)
    await scene.raw.execute("DELETE FROM delivery")


def most_read(plan: Plan) -> float:
    """Return the number of rows that the busiest plan node read, over all its loops."""
    removed = ("Rows Removed by Filter", "Rows Removed by Join Filter")
    return max(
        float(node["Actual Loops"] * (node["Actual Rows"] + sum(node.get(name, 0) for name in removed)))
        for node in nodes(plan)
    )


async def test_the_audit_compares_no_queue_with_all_tokens(scene: Scene) -> None:
    """The audit must not compare each queue with all tokens, however many queues and tokens there are."""
    endpoint = await scene.endpoint()
    await queue(scene, endpoint, keys=300, deep=2)
    await scene.raw.execute(
        "INSERT INTO wake (endpoint_no, at, floor, keys)"
        " SELECT $1, now(), now(), '\"k' || n || '\"' FROM generate_series(0, 298) n",
        endpoint.no,
    )
    assert most_read(await explain(engine_of(scene), "stuck_queues")) <= 1000
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == [endpoint.no]  # no token names the key k299
    await scene.raw.execute("DELETE FROM delivery")


async def queue(scene: Scene, endpoint: Endpoint, *, keys: int, deep: int) -> None:
    await scene.raw.execute(
        "INSERT INTO delivery (app_no, endpoint_no, message_seq, message_at, message_id, event_type, due_at, expires_at,"
        " ordering_key, state)"
        " SELECT $1, $2, n, now(), 'msg_' || n, 'backlog', now(), now() + interval '1 day', 'k' || n % $3::integer, $5"
        " FROM generate_series(1, $3::integer * $4::integer) n",
        endpoint.app_no,
        endpoint.no,
        keys,
        deep,
        int(DeliveryState.QUEUED),
    )
