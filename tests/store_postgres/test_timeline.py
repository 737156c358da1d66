"""The timeline of one endpoint is read by its own index, however many events other endpoints have."""

from __future__ import annotations

from typing import cast

import pytest

from hookline.store.postgres import PostgresStore
from tests.store_postgres.plans import buffers, explain, indexes
from tests.support.scene import Scene

EVENTS = """
INSERT INTO hookline.lane_event (endpoint_no, app_no, at, kind, cause)
SELECT CASE WHEN n % 1000 = 0 THEN $1 ELSE $1 + 1 + n % 50 END, $2, now() - n * interval '1 s', 'lane_held', 'status 429'
FROM generate_series(1, 60000) n
"""


STATEMENTS: dict[str, tuple[int, ...]] = {"lane_events": (50,), "timeline": (10**18, 50), "timeline_back": (0, 50)}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_a_page_of_the_timeline_reads_only_its_own_rows(scene: Scene, name: str) -> None:
    endpoint = await scene.endpoint()
    await scene.raw.execute(EVENTS, endpoint.no, endpoint.app_no)
    await scene.raw.execute("ANALYZE hookline.lane_event")
    for no in (endpoint.no, endpoint.no + 7):  # an endpoint with few events, and one with many
        plan = await explain(cast(PostgresStore, scene.store), name, no, *STATEMENTS[name], any_scan=True)
        assert indexes(plan) == {"lane_event_endpoint"}
        assert buffers(plan) < 120
