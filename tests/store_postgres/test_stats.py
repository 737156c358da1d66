"""The cost of statistics on PostgreSQL depends on the rows in the window, not on the history."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import cast

import pytest

from hookline import clock, ids
from hookline.model.endpoints import Endpoint
from hookline.store.plans.stats import MAX_COUNTED
from hookline.store.postgres import PostgresStore
from tests.store_postgres import plans
from tests.store_postgres.plans import Plan, buffers, scanned
from tests.support import bulk, factory
from tests.support.scene import Scene


async def explain(store: PostgresStore, name: str, *args: object) -> Plan:
    """Explain a statement with the planner settings of statistics."""
    async with store._db.any_scan() as connection, connection.transaction():
        await connection.execute(store._db.sql["stats_planner"])
        text = await connection.fetchval("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + store._db.sql[name], *args)
    plan: Plan = json.loads(text)[0]["Plan"]
    return plan


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("stats_messages", ids.MESSAGE), ("stats_attempts", ids.ATTEMPT), ("stats_failed", ids.ATTEMPT)],
)
async def test_history_outside_the_window_is_not_read(scene: Scene, name: str, prefix: str) -> None:
    """The history has twenty thousand rows with old ids."""
    endpoint = await scene.endpoint()
    scene.broken_on_purpose = True
    await bulk.load(scene.raw, [endpoint])
    await scene.raw.execute("ANALYZE")
    now = clock.wall()
    span = (ids.first_at(prefix, now - timedelta(days=1)), ids.first_at(prefix, now + timedelta(days=1)))
    owner = scene.app.no if name == "stats_messages" else endpoint.no
    plan = await explain(cast(PostgresStore, scene.store), name, [owner], *span, 1000)
    assert scanned(plan) == set()
    assert buffers(plan) < 200


async def test_no_more_rows_are_read_than_the_limit(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    scene.broken_on_purpose = True
    await bulk.load(scene.raw, [endpoint])
    await scene.raw.execute("ANALYZE")
    store = cast(PostgresStore, scene.store)
    few = await explain(store, "stats_waiting", [endpoint.no], 10)
    assert buffers(few) < 50
    assert buffers(few) * 10 < buffers(await explain(store, "stats_waiting", [endpoint.no], 10_000))


# ── one busy lane, many idle ones ──


@pytest.fixture
async def idle(scene: Scene) -> list[Endpoint]:
    """Create idle endpoints of another application, beside one endpoint with twenty thousand rows in each table.

    The planner expects an average number of rows for a lane whose number it does not know.
    """
    sick = await scene.endpoint()
    scene.broken_on_purpose = True
    await bulk.load(scene.raw, [sick])
    other = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    lanes = [await scene.endpoint(other) for _ in range(40)]
    await scene.raw.execute("ANALYZE")
    return lanes


@pytest.mark.parametrize("name", ["stats_waiting", "stats_dead", "stats_dead_open", "stats_attempts", "stats_failed"])
async def test_a_busy_lane_is_not_read_once_for_each_idle_one(scene: Scene, idle: list[Endpoint], name: str) -> None:
    now = clock.wall()
    span: tuple[object, ...] = ()
    if name == "stats_dead":
        span = (now - timedelta(days=1), now)
    elif name in ("stats_attempts", "stats_failed"):
        span = (ids.ATTEMPT, f"{ids.ATTEMPT}~")
    store = cast(PostgresStore, scene.store)
    plan = await explain(store, name, [lane.no for lane in idle], *span, MAX_COUNTED)
    assert buffers(plan) < 500


async def test_a_busy_application_is_not_read_once_for_each_idle_one(scene: Scene, idle: list[Endpoint]) -> None:
    store = cast(PostgresStore, scene.store)
    apps = [idle[0].app_no + n for n in range(40)]
    plan = await explain(store, "stats_messages", apps, ids.MESSAGE, f"{ids.MESSAGE}~", MAX_COUNTED)
    assert buffers(plan) < 500


async def test_idle_lanes_are_shown_without_reading_the_busy_one(scene: Scene, idle: list[Endpoint]) -> None:
    store = cast(PostgresStore, scene.store)
    plan = await plans.explain(store, "lane_views", nos=[each.no for each in idle], counted=10_000, any_scan=True)
    assert buffers(plan) < 40 * 30
