"""Applications over HTTP: create, list in both orders, replace, change and delete. A tenant sees only its own."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import msgspec
import pytest

from hookline import clock
from hookline.model.catalogue import Application, Organization
from hookline.security import tokens
from hookline.store import Store
from tests.api.conftest import JWT_SECRET, Answer, Client
from tests.support import factory
from tests.support.scene import Scene

APP = "/api/v1/app"


async def send(client: Client, method: str, path: str, body: object = None) -> Answer:
    raw = None if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    return await client.request(method, path, raw, {})


async def make(client: Client, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await client.post(APP, {"name": "Acme"} | fields)).json(201)
    return found


@pytest.fixture
async def stranger(store: Store, nobody: Client) -> Client:
    """A client with a token of another organization."""
    other = await store.catalogue.save_organization(factory.organization())
    return nobody.holding(tokens.issue(JWT_SECRET, other.id, now=clock.wall()))


# ── create ──


async def test_every_field_of_an_application_comes_back(client: Client) -> None:
    made = await make(client, uid="acme.1", metadata={"plan": "gold", "ä": "ö"})
    assert made["id"].startswith("app_")
    assert (made["name"], made["uid"], made["metadata"]) == ("Acme", "acme.1", {"plan": "gold", "ä": "ö"})
    assert made["throttleRate"] is None
    assert made["rateLimit"] is None
    assert datetime.fromisoformat(made["createdAt"]) == datetime.fromisoformat(made["updatedAt"])
    assert (await client.get(f"{APP}/{made['id']}")).json() == made
    assert (await client.get(f"{APP}/acme.1/")).json() == made


async def test_a_uid_is_taken_once(client: Client, stranger: Client) -> None:
    await make(client, uid="acme")
    assert "acme" in (await client.post(APP, {"name": "Other", "uid": "acme"})).problem(409, "conflict")
    await make(stranger, uid="acme")


async def test_get_if_exists_makes_it_once(client: Client) -> None:
    twice = [await client.post(f"{APP}?get_if_exists=true", {"name": name, "uid": "acme"}) for name in ("A", "B")]
    assert [answer.status for answer in twice] == [201, 200]
    assert twice[0].json(201) == twice[1].json(200)


REFUSED: list[tuple[str, object]] = [
    ("name", ""),
    ("name", "n" * 1025),
    ("name", "a\x00b"),
    ("name", None),
    ("name", 7),
    ("uid", ""),
    ("uid", "app_mine"),
    ("uid", "with space"),
    ("uid", "ü"),
    ("uid", "line\n"),
    ("uid", "u" * 257),
    ("throttleRate", 0),
    ("throttleRate", -3),
    ("throttleRate", 65_536),
    ("throttleRate", 1 << 80),
    ("throttleRate", 2.5),
    ("throttleRate", "10"),
    ("throttleRate", True),
    ("rateLimit", 0),
    ("rateLimit", 65_536),
    ("metadata", None),
    ("metadata", {"a": 1}),
    ("metadata", {"": "x"}),
    ("metadata", {"a": "\x00"}),
    ("metadata", {f"k{n}": "v" for n in range(51)}),
    ("metadata", {"a": "v" * 20_000}),
    ("metadata", []),
]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_invalid_fields_are_a_422_and_change_nothing(client: Client, app: Application, method: str) -> None:
    before = (await client.get(APP)).json()
    for field, value in REFUSED:
        body = {"name": "Acme", field: value} if method != "PATCH" else {field: value}
        answer = await send(client, method, APP if method == "POST" else f"{APP}/{app.id}", body)
        assert answer.faults()[0]["msg"], (field, value)
    assert (await client.get(APP)).json() == before


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_bodies_that_are_not_an_application_are_refused(client: Client, app: Application, method: str) -> None:
    for raw in (b"", b"{", b"[]", b"null", b'"x"', b'{"name": "\\ud800"}', b'{"name": 1e999}', b'{"name": "\xff"}'):
        answer = await send(client, method, APP if method == "POST" else f"{APP}/{app.id}", raw)
        assert answer.status in (400, 422), raw
        assert "detail" in answer.json(answer.status)


# ── throttle ──


@pytest.mark.parametrize("field", ["throttleRate", "rateLimit"])
async def test_a_throttle_is_set_changed_and_lifted(client: Client, field: str) -> None:
    made = (await client.post(APP, {"name": "Slow", "uid": "slow", field: 7})).json(201)
    assert (made["throttleRate"], made["rateLimit"]) == (7, 7)
    path = f"{APP}/slow"
    assert (await send(client, "PATCH", path, {"name": "Slower"})).json()["throttleRate"] == 7
    assert (await send(client, "PATCH", path, {field: 65_535})).json()["throttleRate"] == 65_535
    assert (await send(client, "PATCH", path, {field: None})).json()["throttleRate"] is None
    assert (await send(client, "PUT", path, {"name": "Slow", field: 9})).json()["throttleRate"] == 9
    assert (await send(client, "PUT", path, {"name": "Slow"})).json()["throttleRate"] is None


async def test_a_throttle_reaches_the_lanes_of_its_application_alone(client: Client, scene: Scene) -> None:
    made = (await client.post(APP, {"name": "Slow", "throttleRate": 7})).json(201)
    slow = (await client.post(f"{APP}/{made['id']}/endpoint", {"url": "https://slow.example.com/in"})).json(201)
    other = await scene.endpoint()
    await send(client, "PATCH", f"{APP}/{made['id']}", {"throttleRate": 11})
    rates = {
        row["id"]: row["app_rate"]
        for row in await scene.raw.rows("SELECT e.id, l.app_rate FROM endpoint e JOIN lane l ON l.endpoint_no = e.no")
    }
    assert rates == {slow["id"]: 11, other.id: None}


# ── list ──


async def walk(client: Client, query: str, key: str = "iterator") -> list[list[str]]:
    """Return the ids of the applications on each page of the listing with `query`. The field `key` of a page has the
    iterator of the next one."""
    pages, more = [], ""
    while True:
        found = (await client.get(f"{APP}?{query}{more}")).json()
        pages.append([each["id"] for each in found["data"]])
        if found["done"]:
            return pages
        more = f"&iterator={found[key]}"


async def test_applications_are_listed_in_either_order_and_direction(client: Client) -> None:
    up = sorted([(await make(client))["id"] for _ in range(5)])
    down = up[::-1]
    assert await walk(client, "limit=2") == [up[:2], up[2:4], up[4:]]
    assert await walk(client, "limit=2&order=ascending") == [up[:2], up[2:4], up[4:]]
    assert await walk(client, "limit=2&order=descending") == [down[:2], down[2:4], down[4:]]


async def test_a_listing_can_be_walked_back(client: Client) -> None:
    up = sorted([(await make(client))["id"] for _ in range(5)])
    for order, ids in (("ascending", up), ("descending", up[::-1])):
        last = (await client.get(f"{APP}?limit=1&order={order}&iterator={ids[3]}")).json()
        assert [each["id"] for each in last["data"]] == [ids[4]]
        back = (await client.get(f"{APP}?limit=2&order={order}&iterator={last['prevIterator']}")).json()
        assert [each["id"] for each in back["data"]] == ids[2:4]
        assert not back["done"]
        first = (await client.get(f"{APP}?limit=2&order={order}&iterator={back['prevIterator']}")).json()
        assert [each["id"] for each in first["data"]] == ids[:2]
        assert first["done"]


async def test_an_unknown_order_is_refused(client: Client) -> None:
    (await client.get(f"{APP}?order=sideways")).problem(400, "bad_request")


async def test_a_limit_out_of_bounds_is_refused(client: Client) -> None:
    assert (await client.get(f"{APP}?limit=251")).faults()


# ── replace ──


async def test_put_creates_with_the_uid_of_the_path(client: Client) -> None:
    made = (await send(client, "PUT", f"{APP}/acme-9", {"name": "Acme", "metadata": {"a": "b"}})).json(201)
    assert (made["uid"], made["name"], made["metadata"]) == ("acme-9", "Acme", {"a": "b"})
    assert (await client.get(f"{APP}/{made['id']}")).json() == made


async def test_put_creates_with_the_uid_of_the_body(client: Client) -> None:
    made = (await send(client, "PUT", f"{APP}/acme", {"name": "Acme", "uid": "other"})).json(201)
    assert made["uid"] == "other"
    (await client.get(f"{APP}/acme")).problem(404, "not_found")


async def test_put_replaces_and_may_be_repeated(client: Client) -> None:
    made = await make(client, uid="acme", metadata={"a": "b"})
    for ref in ("acme", made["id"], "acme"):
        changed = (await send(client, "PUT", f"{APP}/{ref}", {"name": "New"})).json(200)
        assert (changed["id"], changed["uid"], changed["name"], changed["metadata"]) == (made["id"], "acme", "New", {})
        assert changed["createdAt"] == made["createdAt"]
    assert len((await client.get(APP)).json()["data"]) == 1


async def test_put_renames_and_clears_the_uid(client: Client) -> None:
    made = await make(client, uid="before")
    await client.get(f"{APP}/before/endpoint")  # the server now caches the uid
    assert (await send(client, "PUT", f"{APP}/before", {"name": "A", "uid": "after"})).json(200)["uid"] == "after"
    (await client.get(f"{APP}/before/endpoint")).problem(404, "not_found")
    assert (await client.get(f"{APP}/after/endpoint")).status == 200
    assert (await send(client, "PUT", f"{APP}/after", {"name": "A", "uid": None})).json(200)["uid"] is None
    (await client.get(f"{APP}/after/endpoint")).problem(404, "not_found")
    assert (await client.get(f"{APP}/{made['id']}/endpoint")).status == 200


async def test_put_of_a_deleted_id_creates_nothing(client: Client) -> None:
    made = await make(client)
    assert (await send(client, "DELETE", f"{APP}/{made['id']}")).status == 204
    (await send(client, "PUT", f"{APP}/{made['id']}", {"name": "A", "uid": "new"})).problem(404, "not_found")
    assert (await client.get(APP)).json()["data"] == []


async def test_a_path_that_cannot_be_a_uid(client: Client) -> None:
    for ref in ("with%20space", "%C3%BC", "u" * 257, "a%25"):
        assert (await send(client, "PUT", f"{APP}/{ref}", {"name": "A"})).faults()


async def test_concurrent_identical_puts_create_one_application(client: Client) -> None:
    twins = await asyncio.gather(*(send(client, "PUT", f"{APP}/acme", {"name": f"A{n}"}) for n in range(8)))
    assert sorted(answer.status for answer in twins) == [200] * 7 + [201]
    assert len({answer.json(answer.status)["id"] for answer in twins}) == 1


async def test_the_uid_of_another_application_is_a_conflict(client: Client) -> None:
    await make(client, uid="one")
    await make(client, uid="two", name="Two")
    for method in ("PUT", "PATCH"):
        answer = await send(client, method, f"{APP}/two", {"name": "New", "uid": "one"})
        assert "one" in answer.problem(409, "conflict")
    (await send(client, "PUT", f"{APP}/three", {"name": "Three", "uid": "one"})).problem(409, "conflict")
    assert (await client.get(f"{APP}/two")).json()["name"] == "Two"


# ── change in part ──


async def test_patch_keeps_what_is_absent(client: Client) -> None:
    made = await make(client, uid="acme", metadata={"a": "b"})
    changed = (await send(client, "PATCH", f"{APP}/acme", {"name": "New"})).json()
    assert changed == made | {"name": "New", "updatedAt": changed["updatedAt"]}
    assert datetime.fromisoformat(changed["updatedAt"]) > datetime.fromisoformat(made["updatedAt"])
    assert (await send(client, "PATCH", f"{APP}/acme", {"metadata": {}, "throttleRate": None})).json()["metadata"] == {}


async def test_patch_with_null_clears_the_uid(client: Client) -> None:
    made = await make(client, uid="acme")
    await client.get(f"{APP}/acme/endpoint")
    assert (await send(client, "PATCH", f"{APP}/acme", {"uid": None})).json()["uid"] is None
    (await client.get(f"{APP}/acme/endpoint")).problem(404, "not_found")
    assert (await send(client, "PATCH", f"{APP}/{made['id']}", {})).json()["uid"] is None


async def test_patch_of_an_unknown_application_is_404(client: Client) -> None:
    (await send(client, "PATCH", f"{APP}/nobody", {"name": "A"})).problem(404, "not_found")


# ── delete ──


async def test_a_deleted_application_is_gone_at_once(client: Client) -> None:
    made = await make(client, uid="acme")
    message = {"eventType": "order.paid", "payload": {}}
    assert (await client.post(f"{APP}/acme/msg", message)).status == 202  # the server now caches the uid
    answer = await send(client, "DELETE", f"{APP}/acme")
    assert (answer.status, answer.body) == (204, b"")
    for ref in ("acme", made["id"]):
        (await client.get(f"{APP}/{ref}")).problem(404, "not_found")
        (await client.post(f"{APP}/{ref}/msg", message)).problem(404, "not_found")
        (await send(client, "DELETE", f"{APP}/{ref}")).problem(404, "not_found")
    assert (await make(client, uid="acme"))["id"] != made["id"]


async def test_the_token_of_a_deleted_application_is_void_at_once(
    client: Client, narrow: Client, app: Application
) -> None:
    assert (await narrow.get(f"{APP}/{app.id}")).status == 200
    assert (await send(client, "DELETE", f"{APP}/{app.id}")).status == 204
    (await narrow.get(f"{APP}/{app.id}")).problem(401, "authentication_failed")


# ── tenants ──


async def test_the_token_of_one_application_only_reads_it(
    narrow: Client, client: Client, app: Application, organization: Organization
) -> None:
    sibling = await make(client, uid="sibling")
    assert (await narrow.get(f"{APP}/{app.id}")).json()["id"] == app.id
    for ref in (sibling["id"], "sibling"):
        (await narrow.get(f"{APP}/{ref}")).problem(404, "not_found")
    for method, body in (("PUT", {"name": "A"}), ("PATCH", {"name": "A"}), ("DELETE", None)):
        for ref in (app.id, "sibling"):
            (await send(narrow, method, f"{APP}/{ref}", body)).problem(403, "insufficient_access")
    assert (await client.get(f"{APP}/sibling")).json() == sibling


async def test_another_organization_reaches_nothing(client: Client, stranger: Client) -> None:
    made = await make(client, uid="acme")
    for method, body in (("GET", None), ("PATCH", {"name": "A"}), ("DELETE", None), ("PUT", {"name": "A"})):
        (await send(stranger, method, f"{APP}/{made['id']}", body)).problem(404, "not_found")
        if method != "PUT":
            (await send(stranger, method, f"{APP}/acme", body)).problem(404, "not_found")
    theirs = (await send(stranger, "PUT", f"{APP}/acme", {"name": "Theirs"})).json(201)
    assert theirs["id"] != made["id"]
    assert (await client.get(f"{APP}/acme")).json() == made


async def test_without_a_token(nobody: Client) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        (await send(nobody, method, f"{APP}/acme", {"name": "A"})).problem(401, "authentication_failed")


async def test_a_put_with_an_empty_uid_makes_nothing(client: Client, store: Store, organization: Organization) -> None:
    answer = await client.request("PUT", "/api/v1/app/fresh", b'{"name": "Fresh", "uid": ""}', {})
    assert answer.faults()[0]["loc"] == ["body", "uid"]
    assert await store.catalogue.application(organization.id, "fresh") is None
