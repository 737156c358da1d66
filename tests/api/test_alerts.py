"""Alerts over the API: listed in pages, and only for the operators of the deployment."""

from __future__ import annotations

import pytest

from hookline import clock, ids
from hookline.model.catalogue import Organization
from hookline.security import tokens
from hookline.store import Store
from tests.api.conftest import JWT_SECRET, Client
from tests.support import factory
from tests.support.alerts import Fleet, only
from tests.support.scene import Scene


@pytest.fixture
async def organization(store: Store) -> Organization:
    """The default organization, to which the operators of the deployment belong."""
    return await store.catalogue.save_organization(factory.organization(id=ids.DEFAULT_ORG))


async def fire(scene: Scene, count: int) -> list[str]:
    fleet = Fleet(scene, only(circuits=True))
    endpoints = [await scene.endpoint() for _ in range(count)]
    for endpoint in endpoints:
        await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
        await fleet.check()
    return [endpoint.id for endpoint in endpoints]


async def test_alerts_are_listed_newest_first(client: Client, scene: Scene) -> None:
    one, two, three = await fire(scene, 3)
    page = (await client.get("/api/v1/alert?limit=2")).json()
    assert [each["subject"] for each in page["data"]] == [three, two]
    assert not page["done"]
    rest = (await client.get(f"/api/v1/alert?limit=2&iterator={page['iterator']}")).json()
    assert [each["subject"] for each in rest["data"]] == [one]
    assert rest["done"]
    back = (await client.get(f"/api/v1/alert?limit=2&iterator={rest['prevIterator']}")).json()
    assert back["data"] == page["data"]
    assert (
        page["data"][0].items()
        >= {
            "name": "circuit_open",
            "severity": "warning",
            "firing": True,
            "look": f"hookline endpoints show {three}",
            "resolvedAt": None,
        }.items()
    )


async def test_alerts_are_filtered_by_firing_and_resolved(client: Client, scene: Scene) -> None:
    one, two = await fire(scene, 2)
    endpoint = await scene.store.catalogue.endpoint(scene.app.no, one)
    assert endpoint is not None
    await scene.store.catalogue.reset_circuit(endpoint.no, "by hand")
    await Fleet(scene, only(circuits=True)).check()
    for status, subject in (("firing", two), ("resolved", one)):
        page = (await client.get(f"/api/v1/alert?status={status}")).json()
        assert [each["subject"] for each in page["data"]] == [subject]
        assert page["data"][0]["firing"] == (status == "firing")
    assert (await client.get("/api/v1/alert?status=pending")).status in (400, 422)
    (fault,) = (await client.get("/api/v1/alert?iterator=ep_17")).faults()
    assert "does not belong to this listing" in fault["msg"]


async def test_only_operators_of_the_deployment_read_alerts(
    client: Client, narrow: Client, nobody: Client, store: Store
) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    stranger = nobody.holding(tokens.issue(JWT_SECRET, other.id, now=clock.wall()))
    (await stranger.get("/api/v1/alert")).problem(403, "insufficient_access")
    (await narrow.get("/api/v1/alert")).problem(403, "insufficient_access")
    (await nobody.get("/api/v1/alert")).problem(401, "authentication_failed")
    assert (await client.get("/api/v1/alert")).json()["data"] == []
