"""Every operation refuses an unknown field or parameter and names it in the error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import inspect
from starlette.datastructures import QueryParams

from hookline.api import query
from hookline.api.openapi.document import document
from hookline.api.operation import PREFIX, Operation
from hookline.api.routes import OPERATIONS
from hookline.model.catalogue import Application
from hookline.store import Store
from hookline.web import body
from hookline.web.invalid_fields import InvalidField
from tests.api.conftest import Client
from tests.support import factory

UNKNOWN = "zyxwvut"
WITH_BODY = [operation for operation in OPERATIONS if operation.body is not None]
bodies = pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: operation.name)
every = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


class Level(NamedTuple):
    """One object within a body: the path to it, and the names of its fields."""

    steps: tuple[str, ...]
    known: tuple[str, ...]


def levels(kind: inspect.Type, steps: tuple[str, ...] = ()) -> Iterator[Level]:
    match kind:
        case inspect.Metadata():
            yield from levels(kind.type, steps)
        case inspect.UnionType():
            for each in kind.types:
                yield from levels(each, steps)
        case inspect.ListType() | inspect.VarTupleType():
            yield from levels(kind.item_type, (*steps, "[]"))
        case inspect.StructType():
            yield Level(steps, tuple(field.encode_name for field in kind.fields))
            for field in kind.fields:
                yield from levels(field.type, (*steps, field.encode_name))


def within(steps: tuple[str, ...], value: Any) -> bytes:
    for step in reversed(steps):
        value = [value] if step == "[]" else {step: value}
    return msgspec.json.encode(value)


def fault(shape: Any, steps: tuple[str, ...], value: Any) -> tuple[tuple[str, ...], str]:
    with pytest.raises(InvalidField) as refused:
        body.decode(within(steps, value), shape)
    return refused.value.loc, refused.value.words


# ── bodies ──


@bodies
def test_every_object_of_a_body_refuses_a_field_that_it_does_not_have(operation: Operation) -> None:
    for level in levels(inspect.type_info(operation.body)):
        loc, words = fault(operation.body, level.steps, {UNKNOWN: 1})
        assert loc[-1] == UNKNOWN
        assert "unknown field" in words


@bodies
def test_the_error_of_a_misspelt_field_suggests_the_right_name(operation: Operation) -> None:
    for level in levels(inspect.type_info(operation.body)):
        for name in (name for name in level.known if len(name) > 4 and name != "transformationsParams"):
            snake = re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)
            for wrong in {name[:-1], name[1:], name.upper(), snake, name[0] + name} - set(level.known):
                told = fault(operation.body, level.steps, {wrong: None})[1].partition("did you mean ")[2].rstrip("?")
                assert told in level.known, (name, wrong)
                assert told == name or wrong not in (snake, name.upper()), (name, wrong, told)


def test_filter_types_is_suggested_for_filter() -> None:
    endpoint = next(each for each in OPERATIONS if each.name == "v1.endpoint.create")
    assert fault(endpoint.body, (), {"filter": ["order.paid"]}) == (
        ("filter",),
        "unknown field; did you mean filterTypes?",
    )
    assert (
        fault(endpoint.body, (), {"transformation": {}})[1] == "is not supported: Hookline does not transform payloads"
    )


@pytest.mark.parametrize(
    "name", ["", "x" * 100_000, "a` - at `$.b", "\u202e\n\x00", "url\u0000", "Ünüs", "__proto__", "*"]
)
def test_unusual_field_names_are_refused(name: str) -> None:
    endpoint = next(each for each in OPERATIONS if each.name == "v1.endpoint.create")
    loc, words = fault(endpoint.body, (), {name: 1})
    assert "unknown field" in words
    assert len("".join(loc)) + len(words) < 300


# Fields that Svix's SDKs can send and Hookline does not support. null is accepted, any other value is refused.
UNSUPPORTED = {
    "v1.endpoint.send-example": {"exampleIndex": 3, "payload": {"a": 1}},
    "v1.endpoint.patch": {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
}


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, given in UNSUPPORTED.items() for field in given])
def test_an_unsupported_field_is_refused_by_name_and_null_is_accepted(name: str, field: str) -> None:
    operation = next(each for each in OPERATIONS if each.name == name)
    base = {"eventType": "order.paid"} if name.endswith("send-example") else {}
    assert fault(operation.body, (), base | {field: UNSUPPORTED[name][field]}) == (
        (field,),
        "is not supported here: leave it out",
    )
    assert body.decode(msgspec.json.encode(base | {field: None}), operation.body)


# ── parameters ──


@every
def test_a_parameter_that_does_not_exist_is_refused(operation: Operation) -> None:
    for wrong in (UNKNOWN, "Limit", "limit ", "limit[]"):
        with pytest.raises(InvalidField, match="unknown parameter") as refused:
            query.check_names(QueryParams([(wrong, "1")]), operation.query)
        assert refused.value.loc == (wrong,)
    for name in operation.query.__struct_fields__ if operation.query else ():
        query.check_names(QueryParams([(name, "1")]), operation.query)
        with pytest.raises(InvalidField, match=f"did you mean {name}\\?"):
            query.check_names(QueryParams([(f"{name}s", "1")]), operation.query)


# ── through the server ──


async def test_requests_are_refused_and_do_nothing(client: Client, store: Store, app: Application) -> None:
    made = factory.new_endpoint()
    endpoint = await store.catalogue.create_endpoint(app.no, made)
    base = f"{PREFIX}/app/{app.id}/endpoint"
    answer = await client.post(base, {"url": "https://hooks.example.com/", "filter": ["order.paid"]})
    [told] = answer.faults()
    assert (told["loc"], told["msg"]) == (["body", "filter"], "unknown field; did you mean filterTypes?")
    answer = await client.post(base, {"url": "https://hooks.example.com/", "policy": {"maxAttemps": 3}})
    [told] = answer.faults()
    assert (told["loc"], told["msg"]) == (["body", "policy", "maxAttemps"], "unknown field; did you mean maxAttempts?")
    [told] = (await client.get(f"{PREFIX}/app/{app.id}/msg?event_type=order.paid")).faults()
    assert (told["loc"], told["msg"]) == (["query", "event_type"], "unknown parameter; did you mean event_types?")
    answer = await client.request("DELETE", f"{base}/{endpoint.id}?dry_run=true", None, {})
    assert answer.faults()[0]["msg"] == "unknown parameter; this operation has no parameters"
    assert (await client.get(base)).json()["data"][0]["id"] == endpoint.id
    batch = {"messages": [{"eventType": "a", "payload": {}, "channel": "x"}, {"eventType": "a", "payload": {"any": 1}}]}
    first, second = (await client.post(f"{PREFIX}/app/{app.id}/msg/batch", batch)).json(202)["results"]
    assert first["error"]["detail"] == "channel: unknown field; did you mean channels?"
    assert second["status"] == 202


# ── the document ──


def objects(schema: Any, components: dict[str, Any], seen: set[str]) -> Iterator[dict[str, Any]]:
    """Yield every object schema of a body, with all nested ones."""
    if isinstance(schema, list):
        for each in schema:
            yield from objects(each, components, seen)
    elif isinstance(schema, dict):
        if (name := schema.get("$ref", "").rpartition("/")[2]) and name not in seen:
            seen.add(name)
            yield from objects(components[name], components, seen)
        if "properties" in schema:
            yield schema
        for key, value in schema.items():
            if key not in ("examples", "default", "enum"):
                yield from objects(list(value.values()) if key == "properties" else value, components, seen)


@bodies
def test_the_document_forbids_additional_properties(operation: Operation) -> None:
    whole = document()
    found = whole["paths"][PREFIX + operation.path][operation.method.lower()]["requestBody"]["content"]
    taken = list(objects(found["application/json"]["schema"], whole["components"]["schemas"], set()))
    assert taken
    assert all(schema.get("additionalProperties") is False for schema in taken)
