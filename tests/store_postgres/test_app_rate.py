"""An application's rate limit on PostgreSQL: contended locks, and query plans."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from hookline.errors import Conflict
from hookline.model.catalogue import Application, ApplicationChange
from hookline.model.deliveries import SlotBudgets
from hookline.store import Store
from hookline.store.postgres import PostgresStore
from tests.store_postgres.plans import buffers, explain, indexes, scanned
from tests.support import factory
from tests.support.scene import Scene


async def limited(scene: Scene, rate: int | None) -> Application:
    return await scene.store.catalogue.create_application(
        scene.organization.id, factory.new_application(throttle_rate=rate)
    )


async def again(times: int, work: Callable[[int], Awaitable[object]]) -> None:
    for turn in range(times):
        await work(turn)


@pytest.mark.store_options(pool_size=12)
async def test_claims_records_and_changes_of_the_rate_never_deadlock(
    scene: Scene, second: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims lock lanes, then the pace. A rate change locks lanes, then more lanes. A record locks lanes."""
    # a transaction that a deadlock aborts is not retried
    monkeypatch.setattr("hookline.store.postgres.database._TRIES", 1)
    apps = [await limited(scene, 1000), await limited(scene, 2000)]
    for app in apps * 6:
        await scene.endpoint(app, concurrency=3)

    async def claim_and_record(turn: int) -> None:
        worker = (scene.store, second)[turn % 2]
        batch = await worker.pipeline.claim(20, SlotBudgets(lane_limit=20))
        if batch.jobs:
            await worker.pipeline.record(factory.all_delivered(batch.jobs))

    async def change(turn: int) -> None:
        rate = (None, 1000, 60_000)[turn % 3]
        await scene.store.catalogue.change_application(apps[turn % 2].no, ApplicationChange(throttle_rate=rate))

    async def add(turn: int) -> None:
        await second.catalogue.create_endpoint(apps[turn % 2].no, factory.new_endpoint())
        await scene.ingest(factory.new_messages(apps[turn % 2].no, 2))

    await asyncio.gather(
        *(again(40, claim_and_record) for _ in range(6)), *(again(20, change) for _ in range(2)), again(20, add)
    )
    for app in apps:
        rate = await scene.raw.value("SELECT throttle_rate FROM application WHERE no = $1", app.no)
        known = await scene.raw.rows("SELECT DISTINCT app_rate FROM lane WHERE app_no = $1", app.no)
        assert [row["app_rate"] for row in known] == [rate]
        assert await scene.raw.count("app_pace", "app_no = $1", app.no) == (rate is not None)
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []


async def test_an_endpoint_created_during_a_rate_change_has_the_new_rate(scene: Scene, second: Store) -> None:
    app = await limited(scene, 5)
    for rate in range(6, 26):
        made, _ = await asyncio.gather(
            second.catalogue.create_endpoint(app.no, factory.new_endpoint()),
            scene.store.catalogue.change_application(app.no, ApplicationChange(throttle_rate=rate)),
        )
        assert (await scene.lane(made)).app_rate == rate


async def test_a_refused_change_does_not_change_the_rate(scene: Scene) -> None:
    await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="taken"))
    app = await limited(scene, 5)
    endpoint = await scene.endpoint(app)
    with pytest.raises(Conflict):
        await scene.store.catalogue.change_application(app.no, ApplicationChange(uid="taken", throttle_rate=9))
    assert (await scene.lane(endpoint)).app_rate == 5


async def test_the_pace_is_found_by_its_key_among_many(scene: Scene) -> None:
    await scene.raw.execute("INSERT INTO app_pace (app_no) SELECT n FROM generate_series(100, 20000) AS n")
    now = await scene.store.now()
    store = cast(PostgresStore, scene.store)
    for name, values in (
        ("app_paces_lock", ([17_000, 512],)),
        ("app_paces_write", ([17_000, 512], [now, now], [now, now])),
    ):
        plan = await explain(store, name, *values)
        assert (scanned(plan), indexes(plan)) == (set(), {"app_pace_pkey"}), name
        assert buffers(plan) < 60, name


async def test_waking_an_applications_lanes_costs_one_lookup_each_whatever_the_backlog(scene: Scene) -> None:
    endpoints = [await scene.endpoint() for _ in range(20)]
    await scene.send(300)
    store, numbers = cast(PostgresStore, scene.store), [one.no for one in endpoints]
    plan = await explain(store, "lanes_wake", nos=numbers)
    assert (scanned(plan), "delivery_due" in indexes(plan)) == (set(), True)
    assert buffers(plan) < 400
