"""Event types over HTTP: the catalogue of one organization, with the field names of old and new SDKs."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import msgspec
import pytest

from hookline import clock
from hookline.security import tokens
from hookline.services import event_types
from hookline.store import Store
from tests.api.conftest import JWT_SECRET, Answer, Client
from tests.support import factory

TYPES = "/api/v1/event-type"

SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
FULL = {
    "name": "order.paid-2_x",
    "description": "An order was paid",
    "archived": False,
    "deprecated": True,
    "schemas": {"1": SCHEMA, "2": {"title": "ä", "multipleOf": 0.01}},
    "featureFlags": ["beta", "gamma"],
    "groupName": "orders",
    "policy": {"maxAttempts": 3, "maxAge": 60.0},
    "validated": True,
}


async def send(client: Client, method: str, path: str, body: object = None) -> Answer:
    raw = None if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    return await client.request(method, path, raw, {})


async def add(client: Client, name: str, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = (await client.post(TYPES, {"name": name, "description": "d"} | fields)).json(201)
    return made


@pytest.fixture
async def stranger(store: Store, nobody: Client) -> Client:
    """A client with a token of another organization."""
    other = await store.catalogue.save_organization(factory.organization())
    return nobody.holding(tokens.issue(JWT_SECRET, other.id, now=clock.wall()))


# ── create ──


async def test_every_field_of_an_event_type_comes_back(client: Client) -> None:
    made = (await client.post(TYPES, FULL)).json(201)
    assert {name: made[name] for name in FULL} == FULL
    assert made["featureFlag"] == "beta"
    assert datetime.fromisoformat(made["createdAt"]) == datetime.fromisoformat(made["updatedAt"])
    assert (await client.get(f"{TYPES}/order.paid-2_x")).json() == made
    assert (await client.get(f"{TYPES}/order.paid-2_x/")).json() == made


async def test_omitted_fields_have_defaults(client: Client) -> None:
    made = await add(client, "a")
    assert (made["archived"], made["deprecated"], made["validated"]) == (False, False, False)
    assert [made[name] for name in ("schemas", "featureFlag", "featureFlags", "groupName", "policy")] == [None] * 5


async def test_the_older_name_of_feature_flags(client: Client) -> None:
    made = await add(client, "a", featureFlag="beta")
    assert (made["featureFlag"], made["featureFlags"]) == ("beta", ["beta"])


async def test_a_name_is_taken_once(client: Client, stranger: Client) -> None:
    await add(client, "a")
    assert "'a'" in (await client.post(TYPES, {"name": "a", "description": "other"})).problem(409, "conflict")
    await add(stranger, "a")


async def test_creating_an_archived_one_brings_it_back_as_it_is_given_now(client: Client) -> None:
    first = (await client.post(TYPES, FULL)).json(201)
    assert (await send(client, "DELETE", f"{TYPES}/{FULL['name']}")).status == 204
    again = await add(client, str(FULL["name"]), description="new")
    assert (again["archived"], again["description"], again["schemas"]) == (False, "new", None)
    assert (again["validated"], again["policy"], again["featureFlags"]) == (False, None, None)
    assert again["createdAt"] == first["createdAt"]
    assert again["updatedAt"] > first["updatedAt"]


async def test_concurrent_identical_posts_create_one_event_type(client: Client) -> None:
    twins = await asyncio.gather(
        *(client.post(TYPES, {"name": "a", "description": f"{number}"}) for number in range(8))
    )
    assert sorted(answer.status for answer in twins) == [201] + [409] * 7


REFUSED: list[tuple[str, object]] = [
    ("description", None),
    ("description", 7),
    ("description", "a\x00b"),
    ("description", "d" * 4097),
    ("archived", None),
    ("archived", "yes"),
    ("deprecated", 1),
    ("schemas", []),
    ("schemas", {"1": True}),
    ("schemas", {"1": None}),
    ("schemas", {"1": {"type": "nonsense"}}),
    ("schemas", {"1": {"properties": []}}),
    ("schemas", {"1": {}, "2": {"minLength": -1}}),
    ("schemas", {"": {}}),
    ("schemas", {"one two": {}}),
    ("schemas", {"1": {"title": "\x00"}}),
    ("schemas", {"1": {"$schema": "http://127.0.0.1:9/meta"}}),
    ("featureFlag", ""),
    ("featureFlag", "with space"),
    ("featureFlags", ["a\n"]),
    ("featureFlags", "a"),
    ("groupName", "ü"),
    ("policy", {"maxAttempts": 0}),
    ("policy", {"max_attempts": 3}),
    ("policy", {"base": "1"}),
    ("validated", None),
    ("validated", "true"),
]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_invalid_fields_are_a_422_and_change_nothing(client: Client, method: str) -> None:
    await client.post(TYPES, FULL)
    before = (await client.get(f"{TYPES}?with_content=true&include_archived=true")).json()
    for field, value in REFUSED:
        body = {} if method == "PATCH" else {"name": "other", "description": "d"}
        path = TYPES if method == "POST" else f"{TYPES}/{FULL['name']}"
        assert (await send(client, method, path, body | {field: value})).faults()[0]["msg"], (field, value)
    assert (await client.get(f"{TYPES}?with_content=true&include_archived=true")).json() == before


@pytest.mark.parametrize("name", ["", "with space", "ü", "a/b", "a\x00", "a\n", "n" * 257, None, 7])
async def test_invalid_names_are_refused(client: Client, name: object) -> None:
    assert (await client.post(TYPES, {"name": name, "description": "d"})).faults()


async def test_a_schema_may_contain_the_text_of_a_nul_escape(client: Client) -> None:
    schema = {"pattern": "^[^\\u0000]*$", "title": "\\\\u0000"}
    assert (await add(client, "a", schemas={"1": schema}))["schemas"]["1"] == schema


@pytest.mark.parametrize("path", ["with%20space", "%C3%BC", "%ED%A0%80", "%FF", "n" * 300, "%2e%2e", "a%25b"])
async def test_paths_that_name_nothing(client: Client, path: str) -> None:
    for method, body in (("GET", None), ("PATCH", {}), ("DELETE", None)):
        (await send(client, method, f"{TYPES}/{path}", body)).problem(404, "not_found")
    answer = await send(client, "PUT", f"{TYPES}/{path}", {"description": "d"})
    assert answer.status == 422, answer  # this includes "..", which many clients would resolve


# ── list ──


async def names(client: Client, query: str = "") -> list[str]:
    return [each["name"] for each in (await client.get(f"{TYPES}?{query}")).json()["data"]]


async def test_event_types_are_listed_by_name_in_either_order(client: Client) -> None:
    for name in ("b.a", "a.z", "B.a", "c"):
        await add(client, name)
    assert await names(client) == ["B.a", "a.z", "b.a", "c"]
    assert await names(client, "order=descending") == ["c", "b.a", "a.z", "B.a"]
    page = (await client.get(f"{TYPES}?order=descending&limit=3")).json()
    assert (page["done"], page["iterator"], page["prevIterator"]) == (False, "a.z", "-c")
    assert await names(client, "order=descending&limit=3&iterator=a.z") == ["B.a"]
    assert await names(client, "order=descending&limit=2&iterator=-B.a") == ["b.a", "a.z"]
    assert await names(client, "limit=2&iterator=-c") == ["a.z", "b.a"]


async def test_pages_are_full_without_the_archived_ones(client: Client) -> None:
    for number in range(8):
        await add(client, f"t{number}", archived=number % 2 == 0)
    assert await names(client, "limit=3") == ["t1", "t3", "t5"]
    assert await names(client, "limit=3&iterator=t5") == ["t7"]
    assert await names(client, "limit=3&order=descending") == ["t7", "t5", "t3"]
    assert await names(client, "limit=3&include_archived=true") == ["t0", "t1", "t2"]
    assert (await client.get(f"{TYPES}?limit=4")).json()["done"]


async def test_schemas_are_listed_on_demand(client: Client) -> None:
    await add(client, "a", schemas={"1": SCHEMA})
    await add(client, "b")
    bare = (await client.get(TYPES)).json()["data"]
    assert ["schemas" in each for each in bare] == [False, False]
    whole = (await client.get(f"{TYPES}?with_content=true")).json()["data"]
    assert [each["schemas"] for each in whole] == [{"1": SCHEMA}, None]


async def test_a_page_ends_where_its_schemas_get_too_large(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand schemas of 256 KiB in one answer would need gigabytes of memory and delay other requests."""
    schema = {"description": "x" * 1000}
    expected = [f"t{number}" for number in range(9)]
    for name in expected:
        await add(client, name, schemas={"1": schema})
    monkeypatch.setattr(event_types, "MAX_BYTES", 2500)
    monkeypatch.setattr(event_types, "STEP", 3)
    for query, right in (("", expected), ("order=descending&", expected[::-1])):
        found, page = [], (await client.get(f"{TYPES}?{query}with_content=true&limit=5")).json()
        while not page["done"]:
            assert 1 <= len(page["data"]) <= 2
            found += [each["name"] for each in page["data"]]
            page = (await client.get(f"{TYPES}?{query}with_content=true&limit=5&iterator={page['iterator']}")).json()
        assert found + [each["name"] for each in page["data"]] == right
    back = (await client.get(f"{TYPES}?with_content=true&limit=5&iterator=-t7")).json()
    assert ([each["name"] for each in back["data"]], back["done"]) == (["t5", "t6"], False)
    assert back["prevIterator"] == "-t5"
    assert await names(client, "limit=8") == expected[:8]
    assert list((await client.get("/api/v1/openapi.json")).json()["webhooks"]) == expected[:2]


async def test_invalid_queries_are_refused(client: Client) -> None:
    for query in ("order=up", "include_archived=maybe", "with_content=2", "limit=x"):
        (await client.get(f"{TYPES}?{query}")).problem(400, "bad_request")


# ── replace ──


async def test_put_creates_and_replaces(client: Client) -> None:
    made = (await send(client, "PUT", f"{TYPES}/a.b-c", {"description": "one", "groupName": "g"})).json(201)
    assert (made["name"], made["groupName"]) == ("a.b-c", "g")
    again = (await send(client, "PUT", f"{TYPES}/a.b-c", {"description": "two"})).json(200)
    assert (again["description"], again["groupName"], again["createdAt"]) == ("two", None, made["createdAt"])
    assert (await client.get(f"{TYPES}/a.b-c")).json() == again


async def test_put_keeps_what_only_hookline_has_unless_it_is_given(client: Client) -> None:
    await client.post(TYPES, FULL)
    path, body = f"{TYPES}/{FULL['name']}", {"description": "d", "schemas": {"3": {}}}
    kept = (await send(client, "PUT", path, body)).json()
    assert (kept["validated"], kept["policy"], kept["schemas"]) == (True, FULL["policy"], {"3": {}})
    cleared = (await send(client, "PUT", path, body | {"validated": False, "policy": None})).json()
    assert (cleared["validated"], cleared["policy"]) == (False, None)


async def test_put_brings_back_an_archived_one(client: Client) -> None:
    await add(client, "a", archived=True)
    assert (await send(client, "PUT", f"{TYPES}/a", {"description": "d"})).json(200)["archived"] is False


# ── change in part ──


async def test_patch_keeps_what_is_absent_and_clears_with_null(client: Client) -> None:
    made = (await client.post(TYPES, FULL)).json(201)
    path = f"{TYPES}/{FULL['name']}"
    changed = (await send(client, "PATCH", path, {"description": "new"})).json()
    assert changed == made | {"description": "new", "updatedAt": changed["updatedAt"]}
    assert changed["updatedAt"] > made["updatedAt"]
    nulls = {"schemas": None, "featureFlags": None, "groupName": None, "policy": None, "validated": False}
    cleared = (await send(client, "PATCH", path, nulls)).json()
    assert {name: cleared[name] for name in nulls} == nulls
    assert (await send(client, "PATCH", path, {"featureFlag": "x"})).json()["featureFlags"] == ["x"]
    assert (await send(client, "PATCH", path, {"featureFlag": None})).json()["featureFlags"] is None


async def test_patches_at_once_all_count(client: Client) -> None:
    await add(client, "a")
    changes: list[dict[str, Any]] = [
        {"description": "x"},
        {"deprecated": True},
        {"groupName": "g"},
        {"featureFlag": "f"},
    ]
    answers = await asyncio.gather(*(send(client, "PATCH", f"{TYPES}/a", change) for change in changes))
    assert [answer.status for answer in answers] == [200] * 4
    found = (await client.get(f"{TYPES}/a")).json()
    assert (found["description"], found["deprecated"], found["groupName"], found["featureFlag"]) == (
        "x",
        True,
        "g",
        "f",
    )


async def test_a_validated_event_type_must_keep_a_schema(client: Client) -> None:
    await client.post(TYPES, FULL)
    path = f"{TYPES}/{FULL['name']}"
    for body in (b'{"schemas": null}', b'{"schemas": {}}'):
        (fault,) = (await send(client, "PATCH", path, body)).faults()
        assert "no schema" in fault["msg"]
    assert (await client.get(path)).json()["schemas"] == FULL["schemas"]


# ── delete ──


async def test_deleting_archives(client: Client) -> None:
    await add(client, "a", schemas={"1": SCHEMA})
    for _ in range(2):
        answer = await send(client, "DELETE", f"{TYPES}/a")
        assert (answer.status, answer.body) == (204, b"")
    found = (await client.get(f"{TYPES}/a")).json()
    assert (found["archived"], found["schemas"]) == (True, {"1": SCHEMA})
    assert await names(client) == []


async def test_expunging_removes(client: Client) -> None:
    await add(client, "a")
    assert (await send(client, "DELETE", f"{TYPES}/a?expunge=true")).status == 204
    (await client.get(f"{TYPES}/a")).problem(404, "not_found")
    (await send(client, "DELETE", f"{TYPES}/a?expunge=true")).problem(404, "not_found")
    (await send(client, "DELETE", f"{TYPES}/a")).problem(404, "not_found")
    assert (await add(client, "a"))["archived"] is False


# ── tenants ──


async def test_the_token_of_one_application_reads_the_catalogue_only(narrow: Client, client: Client) -> None:
    made = await add(client, "a")
    assert (await narrow.get(f"{TYPES}/a")).json() == made
    assert await names(narrow) == ["a"]
    (await narrow.post(TYPES, {"name": "b", "description": "d"})).problem(403, "insufficient_access")
    for method, body in (("PUT", {"description": "x"}), ("PATCH", {"description": "x"}), ("DELETE", None)):
        (await send(narrow, method, f"{TYPES}/a", body)).problem(403, "insufficient_access")
    assert (await client.get(f"{TYPES}/a")).json() == made


async def test_another_organization_reaches_nothing(client: Client, stranger: Client) -> None:
    made = await add(client, "a")
    for method, body in (("GET", None), ("PATCH", {"description": "x"}), ("DELETE", None)):
        (await send(stranger, method, f"{TYPES}/a", body)).problem(404, "not_found")
    (await send(stranger, "DELETE", f"{TYPES}/a?expunge=true")).problem(404, "not_found")
    (await send(stranger, "PUT", f"{TYPES}/a", {"description": "theirs"})).json(201)
    assert (await client.get(f"{TYPES}/a")).json() == made
