"""The most used routes: the form of their answers, and the input that they refuse."""

from __future__ import annotations

import asyncio

import pytest

from hookline import clock, ids
from hookline.model.catalogue import Application
from hookline.store import Store
from tests.api.conftest import Client
from tests.support import factory
from tests.support.scene import Scene


async def test_health_needs_no_token(nobody: Client) -> None:
    for path in ("/api/v1/health", "/api/v1/health/"):
        answer = await nobody.get(path)
        assert (answer.status, answer.body) == (204, b"")


async def test_unknown_routes_and_methods_answer_in_json(client: Client) -> None:
    assert "/api/v1/nothing" in (await client.get("/api/v1/nothing")).problem(404, "not_found")
    (await client.request("DELETE", "/api/v1/app", None, {})).problem(405, "method_not_allowed")


async def test_application_made_found_and_listed(client: Client) -> None:
    given = {"name": "Acme", "uid": "acme", "metadata": {"plan": "gold"}}
    made = (await client.post("/api/v1/app/", given)).json(201)
    assert (made["uid"], made["throttleRate"], made["metadata"]) == ("acme", None, {"plan": "gold"})

    (await client.post("/api/v1/app", given)).problem(409, "conflict")
    assert (await client.post("/api/v1/app?get_if_exists=true", given)).json(200) == made
    assert (await client.get("/api/v1/app/acme")).json() == made


async def test_pages_follow_one_another(client: Client) -> None:
    made = [(await client.post("/api/v1/app", {"name": f"app {n}"})).json(201)["id"] for n in range(5)]

    first = (await client.get("/api/v1/app?limit=2")).json()
    assert not first["done"]
    second = (await client.get(f"/api/v1/app?limit=2&iterator={first['iterator']}")).json()
    last = (await client.get(f"/api/v1/app?limit=2&iterator={second['iterator']}")).json()
    assert last["done"]
    seen = [each["id"] for page in (first, second, last) for each in page["data"]]
    assert sorted(seen) == sorted(made)
    for limit in ("0", "251", "-1"):
        (await client.get(f"/api/v1/app?limit={limit}")).faults()
    for limit in ("ten", "1.5", "", "00000000100000000", "9" * 4400, "0" * 4400 + "1"):
        (await client.get(f"/api/v1/app?limit={limit}")).problem(400, "bad_request")


LISTINGS = {
    "/app": ids.APP,
    "/app/{app}/endpoint": ids.ENDPOINT,
    "/app/{app}/msg": ids.MESSAGE,
    "/operational-webhook/endpoint": ids.ENDPOINT,
    "/api-key": ids.API_KEY,
    "/background-task": ids.TASK,
    "/dead-letter": None,
    "/app/{app}/dead-letter": None,
}


@pytest.mark.parametrize("path", LISTINGS)
async def test_an_iterator_of_another_listing_is_refused(client: Client, app: Application, path: str) -> None:
    """An iterator of another listing would start at a meaningless position, and the empty page would look like the end."""
    url = f"/api/v1{path.format(app=app.id)}"
    of_others = {ids.APP, ids.ENDPOINT, ids.MESSAGE, ids.API_KEY, ids.TASK} - {LISTINGS[path]}
    minted = [ids.mint(prefix, clock.wall()) for prefix in sorted(of_others)]
    for iterator in ("-", "nonsense", f"{LISTINGS[path]}17", *minted, *(f"-{each}" for each in minted)):
        (fault,) = (await client.get(f"{url}?iterator={iterator}")).faults()
        assert "does not belong to this listing" in fault["msg"], iterator
    if LISTINGS[path] is not None:
        own = ids.mint(LISTINGS[path] or "", clock.wall())
        assert (await client.get(f"{url}?iterator={own}")).status == 200
        assert (await client.get(f"{url}?iterator=-{own}")).status == 200


async def test_an_iterator_that_names_no_event_type_is_refused(client: Client) -> None:
    (await client.post("/api/v1/event-type", {"name": "a", "description": ""})).json(201)
    (await client.get("/api/v1/event-type?iterator=-")).faults()


async def test_a_listing_is_walked_back_in_its_own_order(client: Client) -> None:
    made = sorted([(await client.post("/api/v1/app", {"name": f"app {n}"})).json(201)["id"] for n in range(5)])

    last = (await client.get(f"/api/v1/app?limit=2&iterator={made[2]}")).json()
    assert [each["id"] for each in last["data"]] == made[3:]
    before = (await client.get(f"/api/v1/app?limit=2&iterator={last['prevIterator']}")).json()
    assert [each["id"] for each in before["data"]] == made[1:3]
    assert not before["done"]
    first = (await client.get(f"/api/v1/app?limit=2&iterator={before['prevIterator']}")).json()
    assert [each["id"] for each in first["data"]] == made[:1]
    assert first["done"]


async def test_endpoint_made_and_listed_without_its_secret(client: Client, app: Application) -> None:
    given = {
        "url": "https://hooks.example.com/in",
        "uid": "warehouse",
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "headers": {"x-key": "k-17"},
        "policy": {"maxAttempts": 3, "maxAge": 60.5},
    }
    made = await client.post(f"/api/v1/app/{app.id}/endpoint", given)
    listed = await client.get(f"/api/v1/app/{app.id}/endpoint")
    shown = await client.get(f"/api/v1/app/{app.id}/endpoint/warehouse/")

    assert made.json(201) == listed.json()["data"][0] == shown.json()
    assert shown.json()["policy"] == {"maxAttempts": 3, "maxAge": 60.5}
    for answer in (made, listed, shown):
        assert b"whsec_" not in answer.body
        assert b"k-17" not in answer.body


@pytest.mark.parametrize(
    ("given", "loc", "words"),
    [
        ({}, ["body", "url"], "required"),
        ({"url": 7}, ["body", "url"], "str"),
        ({"url": "http://127.0.0.1/"}, ["body"], "127.0.0.1"),
        ({"url": "https://a.example", "channels": ["x", 1]}, ["body", "channels", "1"], "str"),
        ({"url": "https://a.example", "eventTypes": ["order.unknown"]}, ["body"], "order.unknown"),
        ({"url": "https://a.example", "secret": "guess"}, ["body"], "secret"),
        ({"url": "https://a.example", "headers": {"Host": "b.example"}}, ["body"], "ost"),
        ({"url": "https://a.example", "ordering": "lifo"}, ["body", "ordering"], "lifo"),
        ({"url": "https://a.example", "onDeath": "wait"}, ["body", "onDeath"], "wait"),
        ({"url": "https://a.example", "policy": {"maxAttempts": 0}}, ["body", "policy", "maxAttempts"], "maxAttempts"),
        (
            {"url": "https://a.example", "policy": {"max_attempts": 3}},
            ["body", "policy", "max_attempts"],
            "maxAttempts",
        ),
    ],
)
async def test_bad_endpoints_change_nothing(
    client: Client, app: Application, given: dict[str, object], loc: list[str], words: str
) -> None:
    (fault,) = (await client.post(f"/api/v1/app/{app.id}/endpoint", given)).faults()
    assert fault["loc"][: len(loc)] == loc
    assert words in fault["msg"]
    assert (await client.get(f"/api/v1/app/{app.id}/endpoint")).json()["data"] == []


async def test_message_is_durable_and_byte_for_byte(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    raw = b'{"eventType": "order.paid", "payload": { "id":1,  "n": 1.50 }, "eventId": "e-1", "channels": ["eu"]}'

    sent = (await client.post(f"/api/v1/app/{scene.app.id}/msg/", raw)).json(202)
    assert (sent["eventType"], sent["eventId"], sent["channels"]) == ("order.paid", "e-1", ["eu"])
    (job,) = await scene.claim()
    assert (job.message_id, job.payload) == (sent["id"], b'{ "id":1,  "n": 1.50 }')
    assert sent["id"] in (await client.post(f"/api/v1/app/{scene.app.id}/msg", raw)).problem(409, "conflict")


async def test_idempotency_key(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    path = f"/api/v1/app/{scene.app.id}/msg"
    given, other = ({"eventType": "order.paid", "payload": {"id": n}} for n in (1, 2))

    first = (await client.post(path, given, idempotency_key="k-1")).json(202)
    again = (await client.post(path, given, idempotency_key="k-1")).json(202)
    assert again == first
    (fault,) = (await client.post(path, other, idempotency_key="k-1")).faults()
    assert "another" in fault["msg"]
    assert len(await scene.claim()) == 1


async def test_an_idempotency_key_belongs_to_one_application(client: Client, store: Store, scene: Scene) -> None:
    other = await store.catalogue.create_application(scene.organization.id, factory.new_application())
    given = {"eventType": "order.paid", "payload": {"id": 5}}
    sent = [
        (await client.post(f"/api/v1/app/{app.id}/msg", given, idempotency_key="k-5")).json(202)["id"]
        for app in (scene.app, other)
    ]
    assert sent[0] != sent[1]


async def test_many_at_once_are_all_accepted(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    bodies = [{"eventType": "order.paid", "payload": {"id": n}} for n in range(40)]
    answers = await asyncio.gather(*(client.post(f"/api/v1/app/{scene.app.id}/msg", body) for body in bodies))
    sent = {answer.json(202)["id"] for answer in answers}
    assert {job.message_id for job in await scene.claim_all()} == sent
    assert len(sent) == 40


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 422),
        (b'{"payload": {}}', 422),
        (b'{"eventType": "order.paid"}', 422),
        (b'{"eventType": "order paid", "payload": {}}', 422),
        (b'{"eventType": "order.paid", "payload": {"x": "\xff"}}', 422),
        (b'{"eventType": "order.paid", "payload": {}, "tags": ["a", "a"]}', 422),
        (b'{"eventType": "order.paid", "payload": {}, "orderingKey": ""}', 422),
        (b'{"eventType": "order.paid", "payload": {}, "orderingKey": "a\\u0000"}', 422),
        (b'{"eventType": "order.paid", "payload": {}, "deliverAt": "0001-01-01T00:00:00+14:00"}', 422),
        (b'{"eventType": "order.paid", "payload": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", 400),
        (b'{"eventType": "\xff", "payload": {}}', 400),
        (b'{"eventType": "order.paid", "payload": "' + b"x" * 65_536 + b'"}', 422),
        (b'{"eventType": "order.paid", "payload": "' + b"x" * 200_000 + b'"}', 413),
    ],
)
async def test_bad_messages_change_nothing(client: Client, store: Store, scene: Scene, raw: bytes, status: int) -> None:
    await scene.endpoint()
    answer = await client.post(f"/api/v1/app/{scene.app.id}/msg", raw)
    assert answer.status == status, answer
    answer.json(status)
    assert await scene.claim() == []
