"""Payloads are checked against the JSON Schema of their event type: refusals, cached schemas, and the cost of a check."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hookline.errors import InvalidInput
from hookline.model.catalogue import Application, EventType, Organization
from hookline.services.schemas import payloads as remembering
from hookline.services.schemas import validate as schema_validation
from hookline.services.schemas.payloads import Schemas
from hookline.store import Store
from tests.api.conftest import Client
from tests.support import factory

SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}}},
}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def typed(given: dict[str, Any], **fields: Any) -> EventType:
    return factory.event_type("org_x", name="order.paid", schemas={"1": given}, validated=True, **fields)


def fault(event_type: EventType) -> str:
    with pytest.raises(InvalidInput) as caught:
        schema_validation.check_schemas(event_type)
    return str(caught.value)


@pytest.fixture
def ticking() -> Clock:
    return Clock()


@pytest.fixture
async def schemas(store: Store, ticking: Clock) -> AsyncIterator[Schemas]:
    found = Schemas(store, ticking)
    yield found
    await found.close()


async def saved(store: Store, organization: Organization, given: dict[str, Any], **fields: Any) -> EventType:
    return await store.catalogue.save_event_type(
        factory.event_type(organization.id, schemas={"1": given}, **({"validated": True} | fields))
    )


async def refused(schemas: Schemas, event_type: EventType, payload: object) -> str:
    raw = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    with pytest.raises(InvalidInput) as caught:
        await schemas.check(event_type.org_id, event_type.name, raw)
    return str(caught.value)


# ── valid and invalid payloads ──


async def test_a_payload_that_fits_is_taken(schemas: Schemas, store: Store, organization: Organization) -> None:
    found = await saved(store, organization, SCHEMA)
    await schemas.check(organization.id, found.name, b'{"id": "a", "lines": [1, 2], "more": null}')


async def test_an_error_names_each_fault_with_its_json_pointer(
    schemas: Schemas, store: Store, organization: Organization
) -> None:
    found = await saved(store, organization, {**SCHEMA, "properties": {**SCHEMA["properties"], "a/b~c": {"const": 1}}})  # type: ignore[dict-item]
    told = await refused(schemas, found, {"lines": [1, "x"], "a/b~c": 2})
    assert told.startswith(f"payload: does not fit the schema of {found.name}, version 1: ")
    assert 'at /: "id" is a required property' in told
    assert 'at /lines/1: "x" is not of type "integer"' in told
    assert "at /a~1b~0c: " in told


async def test_an_error_names_at_most_five_faults(schemas: Schemas, store: Store, organization: Organization) -> None:
    found = await saved(store, organization, {"items": {"type": "string"}})
    told = await refused(schemas, found, list(range(12)))
    assert told.count("at /") == 5
    assert told.endswith("; and 7 more")


async def test_a_fault_does_not_repeat_a_large_payload(
    schemas: Schemas, store: Store, organization: Organization
) -> None:
    found = await saved(store, organization, {"type": "string"})
    assert len(await refused(schemas, found, {"a": "x" * 50_000})) < 400


async def test_the_newest_version_counts(schemas: Schemas, store: Store, organization: Organization) -> None:
    versions = {"9": {"type": "string"}, "10": {"type": "integer"}, "2": {"type": "null"}}
    found = await store.catalogue.save_event_type(factory.event_type(organization.id, schemas=versions, validated=True))
    await schemas.check(organization.id, found.name, b"7")
    assert "version 10" in await refused(schemas, found, "seven")


@pytest.mark.parametrize(
    ("versions", "newest"),
    [(["1"], "1"), (["9", "10"], "10"), (["v9", "v10"], "v10"), (["1.2", "1.10"], "1.10"), (["1", "beta"], "1")],
)
def test_versions_are_compared_by_their_numbers(versions: list[str], newest: str) -> None:
    assert schema_validation.newest({version: {} for version in versions}) == newest
    assert schema_validation.newest({version: {} for version in reversed(versions)}) == newest


async def test_without_validation_anything_is_taken(schemas: Schemas, store: Store, organization: Organization) -> None:
    found = await saved(store, organization, SCHEMA, validated=False)
    await schemas.check(organization.id, found.name, b"7")
    await schemas.check(organization.id, "never.heard.of", b"not even JSON")


async def test_a_schema_is_one_organizations_own(schemas: Schemas, store: Store, organization: Organization) -> None:
    found = await saved(store, organization, SCHEMA)
    other = await store.catalogue.save_organization(factory.organization())
    await schemas.check(other.id, found.name, b"7")
    await refused(schemas, found, 7)
    await schemas.check(other.id, found.name, b"7")


# ── changed schemas ──


async def test_a_change_elsewhere_is_noticed_after_a_moment(
    schemas: Schemas, store: Store, organization: Organization, ticking: Clock
) -> None:
    found = await saved(store, organization, SCHEMA, validated=False)
    await schemas.check(organization.id, found.name, b"7")
    found = await store.catalogue.save_event_type(
        replace(found, validated=True, updated_at=found.updated_at + timedelta(seconds=1))
    )
    ticking.now += remembering.REMEMBERED - 0.1
    await schemas.check(organization.id, found.name, b"7")
    ticking.now += 0.2
    await refused(schemas, found, 7)
    await store.catalogue.save_event_type(
        replace(found, schemas={"1": {}}, updated_at=found.updated_at + timedelta(seconds=1))
    )
    ticking.now += remembering.REMEMBERED + 0.1
    await schemas.check(organization.id, found.name, b"7")


async def test_a_change_here_is_noticed_at_once(schemas: Schemas, store: Store, organization: Organization) -> None:
    await schemas.check(organization.id, "order.new", b"7")
    found = await store.catalogue.save_event_type(
        factory.event_type(organization.id, name="order.new", schemas={"1": SCHEMA}, validated=True)
    )
    schemas.forget(organization.id, "order.new")
    await refused(schemas, found, 7)


async def test_the_schema_cache_is_bounded(
    schemas: Schemas, store: Store, organization: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembering, "MAX_REMEMBERED", 3)
    monkeypatch.setattr(remembering, "MAX_COMPILED", 2)
    made = [await saved(store, organization, SCHEMA) for _ in range(6)]
    for found in made * 2:
        await refused(schemas, found, 7)
        assert len(schemas._recent) <= 3
        assert len(schemas._compiled) <= 2


async def test_a_stored_schema_that_cannot_be_used_lets_nothing_through(
    schemas: Schemas, store: Store, organization: Organization
) -> None:
    found = await saved(store, organization, {"type": "nonsense"})
    assert "schemas.1" in await refused(schemas, found, {})
    bare = await store.catalogue.save_event_type(factory.event_type(organization.id, validated=True))
    assert "no schema" in await refused(schemas, bare, {})


# ── no network access ──


@pytest.fixture
async def listener() -> AsyncIterator[tuple[str, list[str]]]:
    """A local server, and the list of calls that it received."""
    calls: list[str] = []

    def called(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append("called")
        writer.close()

    server = await asyncio.start_server(called, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/schema.json", calls


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_no_reference_is_fetched(listener: tuple[str, list[str]], tmp_path: Path, engine: str) -> None:
    address, calls = listener
    local = tmp_path / "schema.json"
    local.write_text('{"type": "integer"}')
    for reference in (address, f"{address}#/a", local.as_uri(), "schema.json", str(local), "//127.0.0.1/x", "urn:a:b"):
        for given in (
            {"$ref": reference},
            {"properties": {"a": {"$ref": reference}}},
            {"$id": address, "$ref": "#/x", "x": {"$ref": reference}},
            {"$dynamicRef": reference},
            {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": reference},
            {"$schema": reference},
            {"$ref": "#/$defs/a", "$defs": {"a": {"$id": "http://127.0.0.1:9/", "$schema": reference}}},
            {"$schema": reference, "$id": reference, "$defs": {"a": {"$ref": reference}}},
        ):
            await asyncio.to_thread(fault, typed(given))
            with contextlib.suppress(InvalidInput):
                await asyncio.to_thread(schema_validation.check_schemas, replace(typed(given), validated=False))
    await asyncio.sleep(0)  # lets the local server accept a pending connection
    assert calls == []


@pytest.mark.parametrize("engine", ["sqlite"])
def test_even_the_library_by_itself_fetches_nothing(engine: str, tmp_path: Path) -> None:
    """The check of a saved schema refuses references to other documents. This test calls the validation library without
    that check."""
    local = tmp_path / "schema.json"
    local.write_text('{"type": "integer"}')
    for reference in ("http://127.0.0.1:9/x", local.as_uri()):
        with pytest.raises(InvalidInput, match="retrieving it failed"):
            schema_validation._validator("1", {"$ref": reference})


# ── the cost of a check ──


def doubling(count: int, keyword: str = "allOf", leaf: object = None) -> dict[str, Any]:
    """Return a schema with a chain of `count` definitions. Each lists the next one twice under `keyword`, so the work
    doubles each time. The last definition is `leaf`."""
    parts: dict[str, Any] = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(count)}
    return {"$defs": parts | {f"d{count}": leaf or {"type": "integer"}}, "$ref": "#/$defs/d0"}


def chain(count: int) -> dict[str, Any]:
    parts: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(count)}
    return {"$defs": parts | {f"d{count}": {}}, "$ref": "#/$defs/d0"}


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"not": found}
    return found


HOSTILE = {
    "doubles": (doubling(40), "parts"),
    "doubles within itself": (doubling(40, leaf={"properties": {"c": {"$ref": "#"}}}), "parts"),
    "a long chain of references": (chain(3000), "nested"),
    "a chain that is walked from its middle": (
        chain(160) | {"$ref": "#/$defs/d80", "allOf": [{"$ref": "#/$defs/d0"}]},
        "nested",
    ),
    "nested deeply": (nested(150), "nested"),
    "nested very deeply": (nested(400), "Recursion limit"),
    "many patterns": ({"properties": {f"p{n}": {"pattern": f"^a{n}"} for n in range(101)}}, "patterns"),
    "many pattern properties": ({"patternProperties": {f"^a{n}": {} for n in range(101)}}, "patterns"),
    "a huge pattern": ({"pattern": "(a{1000}){1000}"}, "regex"),
    "a pattern that looks ahead": ({"pattern": "^(?=a)"}, "regex"),
    "a pattern that refers back": ({"pattern": r"^(a)\1$"}, "regex"),
    "a reference to nothing": ({"$ref": "#/nothing"}, "leads to no schema"),
    "a reference to a number": ({"$ref": "#/minLength", "minLength": 1}, "leads to no schema"),
    "a reference past a list": ({"$ref": "#/allOf/9", "allOf": [{}]}, "leads to no schema"),
    "an anchor": ({"$ref": "#here", "$defs": {"a": {"$anchor": "here"}}}, "pointer within"),
    "another base": ({"properties": {"a": {"$id": "http://x/y", "type": "string"}}}, "below its root"),
    "patterns that are none": ({"$ref": "#/x", "x": {"patternProperties": 5}}, "schemas.1"),
}


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("name", HOSTILE)
def test_schemas_that_would_cost_too_much_are_refused(name: str, engine: str) -> None:
    given, said = HOSTILE[name]
    told = fault(typed(given))
    assert told.startswith("schemas.1: ")
    assert said in told
    assert len(told) < 500


@pytest.mark.parametrize("engine", ["sqlite"])
def test_schemas_without_validation_may_be_unusable(engine: str) -> None:
    schema_validation.check_schemas(replace(typed({"pattern": "^(?=a)"}), validated=False))
    assert "not a JSON Schema" in fault(replace(typed({"type": 5}), validated=False))


USUAL = [
    {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/order.json", **SCHEMA},
    {"$schema": "http://json-schema.org/draft-04/schema#", "id": "https://example.com/order.json", "type": "object"},
    {"properties": {name: {"type": "string"} for name in ("id", "$id", "$ref", "default", "pattern", "enum", "anyOf")}},
    {"examples": [{"$id": "a", "$ref": "b", "id": 5}], "default": {"$ref": "c"}},
    {"$defs": {"a b/c~d": {"type": "null"}}, "properties": {"x": {"$ref": "#/$defs/a%20b~1c~0d"}}},
    {"properties": {"email": {"pattern": r"^[\w.+-]+@[\w-]+\.[\w.]+$"}, "text": {"pattern": "^.{1,255}$"}}},
    {"enum": [f"C{n}" for n in range(300)]},
    {"properties": {f"p{n}": {"type": "string", "description": "d"} for n in range(1000)}},
    {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "value": {"type": "integer"}}},
    {"items": {"$ref": "#/prefixItems/0"}, "prefixItems": [True]},
    {"$ref": "#/properties/a", "properties": {"a": {"type": "object"}}},
]


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("given", USUAL)
def test_usual_schemas_are_taken(given: dict[str, Any], engine: str) -> None:
    schema_validation.check_schemas(typed(given))


async def test_a_pattern_is_linear_in_the_text(schemas: Schemas, store: Store, organization: Organization) -> None:
    """A regular expression engine that backtracks would take practically forever for this pattern."""
    found = await saved(store, organization, {"pattern": "^(a+)+$"})
    assert "at /" in await refused(schemas, found, "a" * 60_000 + "b")


def within(depth: int, core: object) -> object:
    for _ in range(depth):
        core = {"c": core}
    return core


RECURSIVE = {
    "allOf": [{"properties": {"c": {"$ref": "#"}}}, {"properties": {"c": {"$ref": "#"}}, "not": {"type": "string"}}]
}
ALTERNATIVES = {
    "anyOf": [
        {"properties": {"c": {"$ref": "#"}}, "required": ["c", "d"]},
        {"properties": {"c": {"$ref": "#"}}, "required": ["c", "e"]},
        {"type": "integer"},
    ]
}


@pytest.mark.parametrize("given", [RECURSIVE, ALTERNATIVES])
async def test_schemas_that_refer_to_themselves_twice_stay_cheap(
    schemas: Schemas, store: Store, organization: Organization, given: dict[str, Any]
) -> None:
    """A full list of the faults of `ALTERNATIVES` would double at each level, to 2 ** 60 faults."""
    found = await saved(store, organization, given)
    await schemas.check(organization.id, found.name, b"7")
    assert "does not fit" in await refused(schemas, found, within(60, "x"))
    assert "nested more than" in await refused(schemas, found, within(101, 7))


async def test_payloads_too_large_to_list_their_faults(
    schemas: Schemas, store: Store, organization: Organization
) -> None:
    plain = await saved(store, organization, {"items": {"type": "string"}})
    told = await refused(schemas, plain, [1] * 30_000)
    assert told.count("at /") == 1
    branching = await saved(store, organization, {"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}})
    assert (await refused(schemas, branching, [1] * 30_000)).endswith("version 1")


@pytest.mark.parametrize("engine", ["sqlite"])
def test_payloads_too_large_for_their_schema(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.setattr(schema_validation, "MAX_WORK", 1000)
    compiled = schema_validation.compile_schema("order.paid", "1", SCHEMA)
    compiled(b'{"id": "a"}')
    with pytest.raises(InvalidInput, match="too large"):
        compiled(b'{"id": "a", "lines": [%s]}' % b",".join([b"1"] * 500))


@pytest.mark.parametrize(
    "payload",
    [
        b'{"id": "\\ud800"}',
        b'{"id": 1e999}',
        b'{"id": ' + b"9" * 5000 + b"}",
        b"[" * 5000 + b"]" * 5000,
        b'{"id": "\xff"}',
        b"{",
        b"",
    ],
)
async def test_payloads_that_cannot_be_parsed_are_refused(
    schemas: Schemas, store: Store, organization: Organization, payload: bytes
) -> None:
    found = await saved(store, organization, SCHEMA)
    assert (await refused(schemas, found, payload)).startswith("payload: ")


async def test_a_payload_as_deep_as_it_may_be(schemas: Schemas, store: Store, organization: Organization) -> None:
    found = await saved(store, organization, {"type": "object", "required": ["d"]})
    assert "does not fit" in await refused(schemas, found, within(500, 7))


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize(
    ("value", "depth"), [(7, 0), ([], 1), ({}, 1), ([1, [2, {"a": []}]], 4), ([[[[[[]]]]]], 6), ({"a": [1], "b": 2}, 2)]
)
def test_nesting(value: object, depth: int, engine: str) -> None:
    assert schema_validation.nesting(value, 10) == depth
    assert schema_validation.nesting(value, 3) == min(depth, 4)


# ── over HTTP ──


async def test_a_message_that_does_not_fit_is_a_422_and_is_not_kept(client: Client, app: Application) -> None:
    messages = f"/api/v1/app/{app.id}/msg"
    event_type = {"name": "order.paid", "description": "d", "schemas": {"1": SCHEMA}}
    assert (await client.post(messages, {"eventType": "order.paid", "payload": {"id": 1}})).status == 202
    assert (await client.post("/api/v1/event-type", event_type | {"validated": True})).status == 201
    (told,) = (await client.post(messages, {"eventType": "order.paid", "payload": {"id": 2}})).faults()
    assert "at /id: " in told["msg"]
    assert (await client.post(messages, {"eventType": "order.paid", "payload": {"id": "3"}})).status == 202
    off = msgspec.json.encode({"validated": False})
    assert (await client.request("PATCH", "/api/v1/event-type/order.paid", off, {})).status == 200
    assert (await client.post(messages, {"eventType": "order.paid", "payload": {"id": 4}})).status == 202
    kept = (await client.get(messages)).json()["data"]
    assert len(kept) == 3
