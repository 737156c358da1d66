"""The endpoints that subscribe to operational events are found by indexes, however many organizations there are."""

from __future__ import annotations

from typing import cast

from hookline.rules.operational_events import MANAGEMENT
from hookline.store.postgres import PostgresStore
from tests.store_postgres.plans import buffers, explain, indexes, scanned
from tests.support.operational import add_listener
from tests.support.scene import Scene

MANY = 20_000


async def test_subscribed_endpoints_are_found_by_index(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await add_listener(scene.store, scene.organization.id)
    await scene.raw.execute(
        "WITH a AS (INSERT INTO application (id, org_id, uid, name)"
        "           SELECT 'app_' || n, $1, 'org_' || n, 'other' FROM generate_series(1, $2) n RETURNING no)"
        " INSERT INTO endpoint (id, app_no, url, secrets) SELECT 'ep_' || no, no, 'https://hooks.example.com/', '' FROM a",
        MANAGEMENT,
        MANY,
    )
    await scene.raw.execute("ANALYZE")
    plan = await explain(
        cast(PostgresStore, scene.store), "operational_subjects", management=MANAGEMENT, nos=[endpoint.no]
    )
    assert plan["Actual Rows"] == 1
    assert scanned(plan) == set()
    assert "application_uid" in indexes(plan)
    assert buffers(plan) < 30
