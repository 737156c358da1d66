"""Operational webhook endpoints over HTTP. They belong to the organization, in an application that it never sees."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from hookline import clock
from hookline.model.catalogue import Application, Organization
from hookline.rules.operational_events import MANAGEMENT, Kind
from hookline.security import tokens
from hookline.store import Page, Store
from tests.api.conftest import JWT_SECRET, Answer, Client
from tests.support import factory
from tests.support.operational import outbox_events
from tests.support.raw import Raw
from tests.support.scene import Scene

BASE = "/api/v1/operational-webhook/endpoint"
URL = "https://hooks.example.com/operations"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def send(client: Client, method: str, path: str, body: object = None) -> Answer:
    raw = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
    return await client.request(method, path, raw, {})


async def make(client: Client, **fields: object) -> dict[str, Any]:
    found: dict[str, Any] = (await client.post(BASE, {"url": URL} | fields)).json(201)
    return found


@pytest.fixture
async def other(store: Store, nobody: Client) -> Client:
    """A client with a token of another organization."""
    organization = await store.catalogue.save_organization(factory.organization())
    return nobody.holding(tokens.issue(JWT_SECRET, organization.id, now=clock.wall()))


async def test_every_field_under_both_names(client: Client) -> None:
    given = {
        "uid": "pager",
        "description": "Wakes people",
        "eventTypes": ["endpoint.disabled", "message.attempt.exhausted"],
        "throttleRate": 7,
        "secret": SECRET,
        "headers": {"X-Team": "red"},
        "metadata": {"shift": "night"},
    }
    made = await make(client, **given)
    assert made["id"].startswith("ep_")
    assert (made["url"], made["uid"], made["description"], made["disabled"]) == (URL, "pager", "Wakes people", False)
    assert made["eventTypes"] == made["filterTypes"] == given["eventTypes"]
    assert made["throttleRate"] == made["rateLimit"] == 7
    assert (made["metadata"], made["status"], made["statusReason"]) == ({"shift": "night"}, "active", None)
    assert (await client.get(f"{BASE}/pager")).json() == (await client.get(f"{BASE}/{made['id']}")).json() == made
    assert (await client.get(f"{BASE}/pager/secret")).json() == {"key": SECRET}
    assert (await client.get(f"{BASE}/pager/headers")).json() == {"headers": {"X-Team": "red"}, "sensitive": []}
    old = await make(client, filterTypes=["circuit.opened"], rateLimit=3, disabled=True)
    assert (old["eventTypes"], old["throttleRate"], old["disabled"]) == (["circuit.opened"], 3, True)


async def test_a_secret_without_its_prefix(client: Client) -> None:
    made = await make(client, secret="C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
    assert (await client.get(f"{BASE}/{made['id']}/secret")).json() == {"key": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}


async def test_concurrent_puts_of_the_same_uid_create_one_endpoint(client: Client) -> None:
    """The organization has no operational endpoints yet, so the requests also create its hidden application
    concurrently."""
    answers = await asyncio.gather(*(send(client, "PUT", f"{BASE}/pager", {"url": f"{URL}/{n}"}) for n in range(4)))
    assert sorted(answer.status for answer in answers) == [200, 200, 200, 201]
    assert len({answer.json(answer.status)["id"] for answer in answers}) == 1
    assert len((await client.get(BASE)).json()["data"]) == 1


async def test_listed_both_ways(client: Client) -> None:
    assert (await client.get(BASE)).json() == {"data": [], "done": True, "iterator": None, "prevIterator": None}
    mine = sorted([(await make(client))["id"] for _ in range(3)])
    page = (await client.get(f"{BASE}?limit=2")).json()
    assert ([each["id"] for each in page["data"]], page["done"]) == (mine[:2], False)
    rest = (await client.get(f"{BASE}?limit=2&iterator={page['iterator']}")).json()
    assert ([each["id"] for each in rest["data"]], rest["done"]) == (mine[2:], True)
    back = (await client.get(f"{BASE}?order=descending")).json()
    assert [each["id"] for each in back["data"]] == mine[::-1]


async def test_put_makes_and_then_replaces(client: Client) -> None:
    made = (await send(client, "PUT", f"{BASE}/pager", {"url": URL, "description": "one", "disabled": True})).json(201)
    assert (made["uid"], made["description"], made["disabled"]) == ("pager", "one", True)
    again = (await send(client, "PUT", f"{BASE}/pager", {"url": URL + "/2", "eventTypes": ["endpoint.paused"]})).json()
    assert (again["id"], again["uid"], again["url"], again["description"]) == (made["id"], "pager", URL + "/2", "")
    assert (again["eventTypes"], again["disabled"]) == (["endpoint.paused"], False)
    named = (await send(client, "PUT", f"{BASE}/some", {"url": URL, "uid": "other"})).json(201)
    assert named["uid"] == "other"


async def test_secret_and_headers(client: Client) -> None:
    made = await make(client, secret=SECRET)
    one = f"{BASE}/{made['id']}"
    assert (await client.post(f"{one}/secret/rotate", {})).status == 204
    fresh = (await client.get(f"{one}/secret")).json()["key"]
    assert fresh.startswith("whsec_")
    assert fresh != SECRET
    assert (await client.post(f"{one}/secret/rotate", {"key": SECRET, "gracePeriodSeconds": 0})).status == 204
    assert (await client.get(f"{one}/secret")).json()["key"] == SECRET
    assert (await send(client, "PUT", f"{one}/headers", {"headers": {"X-A": "1", "X-Api-Key": "k"}})).status == 204
    assert (await client.get(f"{one}/headers")).json() == {"headers": {"X-A": "1"}, "sensitive": ["X-Api-Key"]}


async def test_deleted(client: Client, scene: Scene) -> None:
    made = await make(client)
    assert (await send(client, "DELETE", f"{BASE}/{made['id']}")).status == 204
    (await client.get(f"{BASE}/{made['id']}")).problem(404, "not_found")
    await scene.endpoint()
    assert await outbox_events(scene.raw) == [], "the deleted endpoint must get no events"


async def test_a_uid_is_taken_once(client: Client, other: Client) -> None:
    await make(client, uid="pager")
    (await client.post(BASE, {"url": URL, "uid": "pager"})).problem(409, "conflict")
    await make(other, uid="pager")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "", {"url": "no address"}, 422),
        ("POST", "", {"url": "http://127.0.0.1/"}, 422),
        ("POST", "", {"url": URL, "eventTypes": ["order.paid"]}, 422),
        ("POST", "", {"url": URL, "eventTypes": ["endpoint.created\x00"]}, 422),
        ("POST", "", {"url": URL, "eventTypes": []}, 422),
        ("POST", "", {"url": URL, "uid": "ep_mine"}, 422),
        ("POST", "", {"url": URL, "secret": "short"}, 422),
        ("POST", "", {"url": URL, "headers": {"Host": "elsewhere"}}, 422),
        ("POST", "", {"url": URL, "metadata": {"a": 1}}, 422),
        ("POST", "", {"url": URL, "throttleRate": 10**30}, 422),
        ("POST", "", b'{"url": "\xed\xa0\x80"}', 400),
        ("POST", "", b"[" * 100_000, 422),
        ("PUT", "/ep_that_is_not_there", {"url": URL}, 404),
        ("PUT", "/pager", {"url": "no address"}, 422),
        ("PUT", "/a%00b", {"url": URL}, 400),
        ("GET", "/pager", None, 404),
        ("DELETE", "/pager", None, 404),
        ("GET", "/pager/secret", None, 404),
        ("POST", "/pager/secret/rotate", {}, 404),
        ("PUT", "/pager/headers", {"headers": {}}, 404),
    ],
)
async def test_refused_requests_change_nothing(
    client: Client, store: Store, raw: Raw, method: str, path: str, body: object, status: int
) -> None:
    assert (await send(client, method, BASE + path, body)).json(status)["detail"]
    assert await store.catalogue.organization(MANAGEMENT) is None
    assert await raw.count("endpoint") == 0


# ── tenants ──


async def test_an_organization_reaches_only_its_own(client: Client, other: Client, raw: Raw) -> None:
    mine = await make(client, uid="pager", secret=SECRET)
    await make(other)
    before = await raw.rows("SELECT * FROM endpoint ORDER BY no")
    for ref in (mine["id"], "pager"):
        for method, path, body in (
            ("GET", "", None),
            ("GET", "/secret", None),
            ("GET", "/headers", None),
            ("DELETE", "", None),
            ("POST", "/secret/rotate", {}),
            ("PUT", "/headers", {"headers": {"X-A": "1"}}),
        ):
            (await send(other, method, f"{BASE}/{ref}{path}", body)).problem(404, "not_found")
    (await send(other, "PUT", f"{BASE}/{mine['id']}", {"url": URL})).problem(404, "not_found")
    assert await raw.rows("SELECT * FROM endpoint ORDER BY no") == before
    listed = (await other.get(BASE)).json()["data"]
    assert mine["id"] not in [each["id"] for each in listed]
    assert len(listed) == 1


async def test_the_hidden_application_is_not_listed(
    client: Client, store: Store, organization: Organization, app: Application
) -> None:
    made = await make(client)
    assert [each["id"] for each in (await client.get("/api/v1/app")).json()["data"]] == [app.id]
    home = await store.catalogue.application(MANAGEMENT, organization.id)
    assert home is not None
    for ref in (home.id, organization.id):
        (await client.get(f"/api/v1/app/{ref}")).problem(404, "not_found")
        (await client.get(f"/api/v1/app/{ref}/endpoint/{made['id']}")).problem(404, "not_found")
    (await client.get(f"{BASE}/{home.id}")).problem(404, "not_found")


async def test_ordinary_endpoints_are_not_operational_ones(client: Client, scene: Scene) -> None:
    await make(client)
    ordinary = await scene.endpoint(uid="ordinary")
    for ref in (ordinary.id, "ordinary"):
        (await client.get(f"{BASE}/{ref}")).problem(404, "not_found")


async def test_an_application_with_the_uid_of_an_organization_gets_no_events(
    client: Client, other: Client, scene: Scene
) -> None:
    """Any tenant may use the id of another organization as the uid of an application."""
    await make(other)
    (await other.post("/api/v1/app", {"name": "n", "uid": scene.organization.id})).json(201)
    (await other.post(f"/api/v1/app/{scene.organization.id}/endpoint", {"url": URL})).json(201)
    await scene.endpoint()
    assert [each.type for each in await outbox_events(scene.raw) if each.org_id == scene.organization.id] == []


async def test_the_token_of_one_application_is_refused(narrow: Client) -> None:
    for method, path in (("GET", ""), ("POST", ""), ("GET", "/ep_1"), ("GET", "/ep_1/secret")):
        answer = await send(narrow, method, BASE + path, {"url": URL} if method == "POST" else None)
        answer.problem(403, "insufficient_access")


async def test_the_management_organizations_token_is_an_ordinary_one(client: Client, nobody: Client) -> None:
    made = await make(client)
    manager = nobody.holding(tokens.issue(JWT_SECRET, MANAGEMENT, now=clock.wall()))
    (await manager.get(f"{BASE}/{made['id']}")).problem(404, "not_found")
    assert (await manager.get(BASE)).json()["data"] == []


# ── events for changes through the API ──


async def test_changes_through_the_api_send_operational_events(client: Client, scene: Scene) -> None:
    await make(client)
    base = f"/api/v1/app/{scene.app.id}/endpoint"
    endpoint = (await client.post(base, {"url": URL, "uid": "gate"})).json(201)
    one = f"{base}/{endpoint['id']}"
    (await send(client, "PATCH", one, {"description": "new", "disabled": True})).json()
    (await send(client, "PATCH", one, {"disabled": False})).json()
    (await client.post(f"{one}/pause", {"cause": "their deploy"})).json()
    (await client.post(f"{one}/resume", {})).json()
    assert (await client.post(f"{one}/secret/rotate", {})).status == 200
    assert (await send(client, "DELETE", one)).status == 204
    found = await outbox_events(scene.raw)
    assert [each.type for each in found] == [
        "endpoint.created",
        "endpoint.updated",
        "endpoint.disabled",
        "endpoint.enabled",
        "endpoint.paused",
        "endpoint.resumed",
        "endpoint.updated",
        "endpoint.deleted",
    ]
    assert {each.data["endpointUid"] for each in found} == {"gate"}
    assert found[2].data["trigger"] == "manual"
    assert not [each for each in found if SECRET in str(each.data)]


async def test_the_catalogue_of_the_management_organization(client: Client, store: Store) -> None:
    await make(client)
    found = await store.catalogue.event_types(MANAGEMENT, Page(limit=100))
    assert [each.name for each in found] == sorted(Kind)
    assert all(each.description for each in found)
    assert (await client.get("/api/v1/event-type")).json()["data"] == []
