"""What counting costs on PostgreSQL: what is in the window, whatever the history."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import cast

import pytest

from hookline import clock, ids
from hookline.store.postgres import PostgresStore
from tests.store_postgres.plans import Plan, buffers, indexes, scanned
from tests.support import bulk
from tests.support.scene import Scene


async def explain(store: PostgresStore, name: str, *args: object) -> Plan:
    """With the settings that counting has."""
    async with store._db.calm() as connection, connection.transaction():
        await connection.execute(store._sql["stats_planner"])
        text = await connection.fetchval("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + store._sql[name], *args)
    plan: Plan = json.loads(text)[0]["Plan"]
    return plan


@pytest.mark.parametrize(
    ("name", "prefix", "index"),
    [
        ("stats_messages", ids.MESSAGE, "app_no_id"),
        ("stats_attempts", ids.ATTEMPT, "endpoint_no_id"),
        ("stats_failed", ids.ATTEMPT, "endpoint_no_id"),
    ],
)
async def test_history_outside_the_window_is_not_looked_at(scene: Scene, name: str, prefix: str, index: str) -> None:
    """Twenty thousand rows whose ids were made long ago."""
    endpoint = await scene.endpoint()
    scene.broken_on_purpose = True
    await bulk.load(scene.raw, [endpoint])
    await scene.raw.execute("ANALYZE")
    now = clock.wall()
    span = (ids.first_at(prefix, now - timedelta(days=1)), ids.first_at(prefix, now + timedelta(days=1)))
    owner = scene.app.no if name == "stats_messages" else endpoint.no
    plan = await explain(cast(PostgresStore, scene.store), name, [owner], *span, 1000)
    assert scanned(plan) == set()
    assert any(index in used for used in indexes(plan))
    assert buffers(plan) < 200


async def test_no_more_is_looked_at_than_the_bound(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    scene.broken_on_purpose = True
    await bulk.load(scene.raw, [endpoint])
    await scene.raw.execute("ANALYZE")
    store = cast(PostgresStore, scene.store)
    few = await explain(store, "stats_waiting", [endpoint.no], 10)
    assert buffers(few) < 50
    assert buffers(few) * 10 < buffers(await explain(store, "stats_waiting", [endpoint.no], 10_000))
