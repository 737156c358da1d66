"""The timeline of an endpoint over HTTP: pages, filters and invalid queries."""

from __future__ import annotations

from urllib.parse import quote

from hookline.model.states import EndpointStatus
from tests.api.conftest import Client
from tests.api.test_lanes import path
from tests.support.scene import Scene


async def test_an_event_has_its_cause(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.recover(endpoint)
    found = (await client.get(path(endpoint, "timeline"))).json()
    assert [each["kind"] for each in found["data"]] == ["circuit_recovering", "circuit_opened"]
    assert set(found["data"][0]) == {"at", "kind", "cause", "actor"}
    assert "503" in found["data"][1]["cause"]
    assert found["data"][1]["actor"] is None
    assert found["done"] is True


async def test_pages_forwards_and_backwards(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for turn in range(7):
        status = EndpointStatus.ACTIVE if turn % 2 else EndpointStatus.PAUSED
        await scene.store.catalogue.set_endpoint_status(endpoint.no, status, f"turn {turn}")
    pages, query = [], ""
    while True:
        found = (await client.get(path(endpoint, f"timeline?limit=3{query}"))).json()
        pages.append([each["cause"] for each in found["data"]])
        if found["done"]:
            break
        query = f"&iterator={found['iterator']}"
    assert pages == [["turn 6", "turn 5", "turn 4"], ["turn 3", "turn 2", "turn 1"], ["turn 0"]]
    back = (await client.get(path(endpoint, f"timeline?limit=3&iterator={found['prevIterator']}"))).json()
    assert [each["cause"] for each in back["data"]] == pages[1]


async def test_events_are_filtered_by_kind_and_time(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "long ago")
    await scene.age(3600)
    then = quote((await scene.store.now()).isoformat())
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "lately")
    await scene.store.catalogue.open_circuit(endpoint.no, "just now")
    for query, causes in (
        ("kind=circuit_opened,endpoint_paused", ["just now", "long ago"]),
        ("kind=circuit_opened&kind=endpoint_resumed", ["just now", "lately"]),
        (f"since={then}", ["just now", "lately"]),
        (f"until={then}", ["long ago"]),
        (f"since={then}&until={then}", []),
        (f"since={then}&kind=endpoint_paused", []),
    ):
        found = (await client.get(path(endpoint, f"timeline?{query}"))).json()
        assert [each["cause"] for each in found["data"]] == causes, query


async def test_bad_queries(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for query, status in (
        ("kind=circuit_exploded", 400),
        ("since=yesterday", 400),
        ("since=2026-01-01T00:00:00", 400),
        ("until=0001-01-01T00:00:00Z", 422),
        ("since=null", 400),
        ("limit=0", 422),
        ("iterator=ep_x", 422),
        ("iterator=99999999999999999999", 422),
        ("iterator=%00", 400),
    ):
        (await client.get(path(endpoint, f"timeline?{query}"))).json(status)
