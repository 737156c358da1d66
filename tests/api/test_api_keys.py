"""API keys: created, shown once, limited by a scope, listed with their last use, and revoked."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hookline import clock
from hookline.model.catalogue import Application, Organization
from hookline.security import api_keys
from hookline.store import Store
from tests.api.conftest import Client
from tests.support import factory
from tests.support.raw import Raw

MESSAGE = {"eventType": "order.paid", "payload": {"id": 1}}


async def make(client: Client, **fields: Any) -> Any:
    return (await client.post("/api/v1/api-key", {"name": f"key {factory.number()}"} | fields)).json(201)


async def test_a_key_is_shown_once_and_lets_its_holder_in(client: Client, nobody: Client, app: Application) -> None:
    made = await make(client, name="checkout")
    key = made.pop("key")
    assert api_keys.check(key) == key
    assert (made["name"], made["scope"], made["appId"], made["hint"]) == ("checkout", "full", None, key[-4:])

    assert (await client.get(f"/api/v1/api-key/{made['id']}")).json() == made
    assert (await client.get("/api/v1/api-key")).json()["data"] == [made]
    holder = nobody.holding(key)
    assert (await holder.get("/api/v1/app")).json()["data"][0]["id"] == app.id
    (await holder.post(f"/api/v1/app/{app.id}/msg", MESSAGE)).json(202)
    assert key.encode() not in (await holder.get("/api/v1/api-key")).body


async def test_a_key_of_one_application(client: Client, nobody: Client, store: Store, app: Application) -> None:
    sibling = await store.catalogue.create_application(app.org_id, factory.new_application(uid="sibling"))
    made = await make(client, appId="sibling", scope="publish")
    assert made["appId"] == sibling.id
    holder = nobody.holding(made["key"])
    (await holder.post("/api/v1/app/sibling/msg", MESSAGE)).json(202)
    (await holder.post(f"/api/v1/app/{app.id}/msg", MESSAGE)).problem(404, "not_found")
    (await holder.get("/api/v1/app/sibling")).problem(403, "insufficient_access")
    (await holder.get("/api/v1/app")).problem(403, "insufficient_access")


async def test_scopes(client: Client, nobody: Client, app: Application) -> None:
    reader = nobody.holding((await make(client, scope="read"))["key"])
    assert (await reader.get(f"/api/v1/app/{app.id}")).json()["id"] == app.id
    detail = (await reader.post(f"/api/v1/app/{app.id}/msg", MESSAGE)).problem(403, "insufficient_access")
    assert "only read" in detail
    (await reader.get("/api/v1/api-key")).problem(403, "insufficient_access")


async def test_a_revoked_key_is_refused_at_once(client: Client, nobody: Client) -> None:
    made = await make(client)
    holder = nobody.holding(made["key"])
    (await holder.get("/api/v1/app")).json()
    assert (await client.request("DELETE", f"/api/v1/api-key/{made['id']}", None, {})).status == 204
    assert "revoked" in (await holder.get("/api/v1/app")).problem(401, "authentication_failed")
    assert (await client.get("/api/v1/api-key")).json()["data"] == []
    for method in ("GET", "DELETE"):
        (await client.request(method, f"/api/v1/api-key/{made['id']}", None, {})).problem(404, "not_found")


async def test_a_key_that_has_expired(client: Client, nobody: Client, raw: Raw) -> None:
    ends = clock.wall() + timedelta(hours=1)
    made = await make(client, expiresAt=ends.isoformat())
    await raw.execute("UPDATE api_key SET expires_at = $1", clock.wall())
    assert "expired" in (await nobody.holding(made["key"]).get("/api/v1/app")).problem(401, "authentication_failed")


async def test_a_mistyped_key_and_an_unknown_key_have_different_errors(client: Client, nobody: Client) -> None:
    key = (await make(client))["key"]
    other = "a" if key[10] != "a" else "b"
    for wrong in (key[:10] + other + key[11:], key[:-1], key + "x", "hk_", "hk_é" + key[4:]):
        answer = await nobody.holding(wrong.encode().decode("latin-1")).get("/api/v1/app")
        assert "mistyped" in answer.problem(401, "authentication_failed")
    assert "does not exist" in (await nobody.holding(api_keys.make()).get("/api/v1/app")).problem(
        401, "authentication_failed"
    )


async def test_last_use(client: Client, nobody: Client, store: Store, organization: Organization) -> None:
    made = await make(client)
    assert made["lastUsedAt"] is None
    before = await store.now()
    (await nobody.holding(made["key"]).get("/api/v1/app")).json()
    async with asyncio.timeout(60):
        while (await client.get(f"/api/v1/api-key/{made['id']}")).json()["lastUsedAt"] is None:
            await asyncio.sleep(0.01)  # the server stores the last use after it has sent the answer
    kept = await store.access.api_key(organization.id, made["id"])
    assert kept is not None
    assert kept.last_used_at is not None
    assert kept.last_used_at >= before


async def test_listing_in_pages(client: Client) -> None:
    made = sorted([(await make(client))["id"] for _ in range(3)])
    page = (await client.get("/api/v1/api-key?limit=2")).json()
    assert ([each["id"] for each in page["data"]], page["done"]) == (made[:2], False)
    page = (await client.get(f"/api/v1/api-key?limit=2&iterator={page['iterator']}")).json()
    assert ([each["id"] for each in page["data"]], page["done"]) == (made[2:], True)
    page = (await client.get(f"/api/v1/api-key?limit=2&iterator={page['prevIterator']}")).json()
    assert [each["id"] for each in page["data"]] == made[:2]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "n" * 257},
        {"name": "a\0b"},
        {"name": None},
        {"scope": "everything"},
        {"expiresAt": "2001-01-01T00:00:00Z"},
        {"expiresAt": "2999-01-01T00:00:00"},
        {"expiresAt": "9999-12-31T23:59:59Z"},
        {"expiresAt": 10**30},
    ],
)
async def test_invalid_fields_are_refused(client: Client, raw: Raw, fields: dict[str, Any]) -> None:
    (await client.post("/api/v1/api-key", {"name": "n"} | fields)).faults()
    assert await raw.count("api_key") == 0


async def test_a_name_with_a_lone_surrogate_is_refused(client: Client, raw: Raw) -> None:
    answer = await client.post("/api/v1/api-key", b'{"name": "\\ud800"}')
    assert answer.status in (400, 422), answer
    assert await raw.count("api_key") == 0


async def test_an_application_that_does_not_exist(client: Client, raw: Raw) -> None:
    for ref in ("app_none", "nobody", "nobody\n", "", "a\0b", "\ud7ff", "a" * 257):
        (await client.post("/api/v1/api-key", {"name": "n", "appId": ref})).problem(404, "not_found")
    assert await raw.count("api_key") == 0
