"""Statistics over HTTP: the reference's format for an endpoint, Hookline's own for applications and the organization."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint
from hookline.store import Page
from tests.api.conftest import Client
from tests.support import factory
from tests.support.scene import Scene

NONE = {"success": 0, "pending": 0, "sending": 0, "fail": 0, "canceled": 0}


def of_endpoint(endpoint: Endpoint) -> str:
    return f"/api/v1/app/{endpoint.app_id}/endpoint/{endpoint.id}/stats"


def window(since: datetime | None, until: datetime | None) -> str:
    given = {"since": since, "until": until}
    return "&".join(f"{name}={quote(value.isoformat())}" for name, value in given.items() if value is not None)


async def history(scene: Scene, endpoint: Endpoint) -> None:
    """Ten messages: 3 delivered, 2 dead and open, 1 dead and resolved, 1 scheduled, 2 in flight, 1 pending."""
    await scene.send(9)
    jobs = await scene.claim_all()
    assert {job.endpoint_no for job in jobs} == {endpoint.no}
    assert len(jobs) == 9
    await scene.record(
        *(factory.delivered(job) for job in jobs[:3]),
        *(factory.dead(job) for job in jobs[3:6]),
        factory.retry(jobs[6], after=500),
    )
    letters = await scene.store.repair.dead_letters(DeadFilter(endpoint_no=endpoint.no), Page(limit=10))
    assert await scene.store.repair.resolve(DeadFilter(ids=(letters[0].id,)), "by hand") == 1
    await scene.send(1)


async def test_statistics_of_an_endpoint_have_the_format_of_the_reference(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    assert (await client.get(of_endpoint(endpoint))).json() == NONE
    await history(scene, endpoint)
    found = (await client.get(of_endpoint(endpoint))).json()
    assert found == {"success": 3, "pending": 2, "sending": 2, "fail": 2, "canceled": 1}

    now = datetime.now(UTC)
    closed = {"success": 0, "fail": 0, "canceled": 0}
    for given in (
        window(now - timedelta(days=2), now - timedelta(days=1)),
        window(now + timedelta(hours=1), now + timedelta(hours=2)),
        window(None, now - timedelta(hours=1)),
    ):
        assert (await client.get(f"{of_endpoint(endpoint)}?{given}")).json() == found | closed
    assert (await client.get(f"{of_endpoint(endpoint)}?{window(now - timedelta(hours=1), None)}")).json() == found


async def test_statistics_of_an_application_and_of_the_organization(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await history(scene, endpoint)
    other = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.endpoint(other)
    await scene.ingest(factory.new_messages(other.no, 4))

    mine = (await client.get(f"/api/v1/app/{scene.app.id}/stats")).json()
    since, until = (datetime.fromisoformat(mine.pop(name)) for name in ("since", "until"))
    assert until - since == timedelta(hours=24)
    assert abs(until - datetime.now(UTC)) < timedelta(minutes=5)
    assert mine == {
        "messages": 10,
        "deliveries": {
            "pending": 1,
            "scheduled": 1,
            "queued": 0,
            "delivering": 2,
            "delivered": 3,
            "dead": 2,
            "resolved": 1,
        },
        "attempts": {"delivered": 3, "retry": 1, "dead": 3},
        "deadLetters": 2,
        "complete": True,
    }
    whole = (await client.get("/api/v1/stats/")).json()
    assert (whole["messages"], whole["deliveries"]) == (14, mine["deliveries"] | {"pending": 5})
    assert (whole["attempts"], whole["deadLetters"]) == (mine["attempts"], 2)

    past = window(datetime.now(UTC) - timedelta(days=30), datetime.now(UTC) - timedelta(days=29))
    found = (await client.get(f"/api/v1/stats?{past}")).json()
    assert (found["messages"], found["attempts"]) == (0, {"delivered": 0, "retry": 0, "dead": 0})
    assert (found["deliveries"]["dead"], found["deadLetters"]) == (0, 2)


async def test_each_tenant_counts_its_own(client: Client, narrow: Client, nobody: Client, scene: Scene) -> None:
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    foreign = await scene.store.catalogue.create_application(stranger.id, factory.new_application())
    hidden = await scene.endpoint(foreign)
    await scene.ingest(factory.new_messages(foreign.no, 3))
    other = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    theirs = await scene.endpoint(other)

    whole = (await client.get("/api/v1/stats")).json()
    assert (whole["messages"], whole["deliveries"]["pending"]) == (0, 0)
    (await narrow.get("/api/v1/stats")).problem(403, "insufficient_access")
    assert (await narrow.get(f"/api/v1/app/{scene.app.id}/stats")).json()["messages"] == 0
    for who, path in (
        (client, f"/api/v1/app/{foreign.id}/stats"),
        (client, of_endpoint(hidden)),
        (narrow, f"/api/v1/app/{other.id}/stats"),
        (narrow, of_endpoint(theirs)),
        (client, f"/api/v1/app/{scene.app.id}/endpoint/{theirs.id}/stats"),
    ):
        (await who.get(path)).problem(404, "not_found")
    for path in ("/api/v1/stats", f"/api/v1/app/{scene.app.id}/stats", of_endpoint(theirs)):
        (await nobody.get(path)).problem(401, "authentication_failed")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("since=yesterday", 400),
        ("since=7", 400),
        ("until=2026-01-02", 400),
        ("since=2026-01-01T00:00:00", 400),
        ("since=2026-01-01T00:00:00%00Z", 400),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", 422),
        ("since=2026-01-01T00:00:00Z&until=2026-01-01T00:00:00Z", 422),
        ("since=2026-01-01T00:00:00Z&until=2026-01-31T00:00:01Z", 422),
        ("since=2020-01-01T00:00:00Z", 422),
        ("since=0001-01-01T00:00:00%2B14:00", 422),
        ("until=9999-12-31T23:59:59-14:00", 422),
        ("until=0001-01-01T00:00:00%2B14:00", 422),
        ("since=" + "9" * 5000, 400),
    ],
)
async def test_bad_windows(client: Client, scene: Scene, query: str, status: int) -> None:
    endpoint = await scene.endpoint()
    for path in ("/api/v1/stats", f"/api/v1/app/{scene.app.id}/stats", of_endpoint(endpoint)):
        answer = await client.get(f"{path}?{query}")
        answer.json(status)


async def test_the_longest_window_and_a_very_old_one(client: Client, scene: Scene) -> None:
    for query in (
        "since=2026-01-01T00:00:00Z&until=2026-01-31T00:00:00Z",
        "since=2001-01-01T00:00:00Z&until=2001-01-02T00:00:00Z",
        "since=2999-01-01T00:00:00Z&until=2999-01-02T00:00:00Z",
    ):
        assert (await client.get(f"/api/v1/stats?{query}")).json()["messages"] == 0
