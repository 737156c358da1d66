"""Example payloads: the schema's own example or a value that fits it, limited in size for every schema."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.services.example_payload import MAX_SIZE, payload
from tests.support import factory

NOW = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)
FALLBACK = {"type": "order.paid", "timestamp": "2026-05-06T07:08:09Z", "data": {"example": True}}


def made(schemas: dict[str, Any] | None) -> Any:
    raw = payload(factory.event_type("org_1", name="order.paid", schemas=schemas), NOW)
    assert len(raw) <= MAX_SIZE + 1024
    return msgspec.json.decode(raw)


def of(schema: Any) -> Any:
    return made({"1": schema})


def test_an_event_type_without_a_schema_has_an_example() -> None:
    assert made(None) == made({}) == FALLBACK


def test_the_newest_schema_is_used() -> None:
    assert made({"9": {"const": "old"}, "10": {"const": "new"}}) == "new"


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"examples": [{"id": 1}, {"id": 2}], "type": "object"}, {"id": 1}),
        ({"example": {"id": 3}}, {"id": 3}),
        ({"default": False, "type": "boolean"}, False),
        ({"enum": ["a", "b"]}, "a"),
        ({"const": None}, None),
        ({"type": "object", "properties": {"id": {"type": "integer"}, "x": {"type": "null"}}}, {"id": 1, "x": None}),
        ({"type": "array", "items": {"type": "boolean"}}, [True]),
        ({"items": {"const": 4}}, [4]),
        ({"type": ["null", "number"], "maximum": 0.5}, 0.5),
        ({"type": "integer", "minimum": 18}, 18),
        ({"type": "string", "minLength": 6}, "textxx"),
        ({"type": "string", "maxLength": 2}, "te"),
        ({"type": "string", "format": "email"}, "ada@example.com"),
        ({"anyOf": [{"const": 5}, {"const": 6}]}, 5),
        ({"allOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]}, {"a": 1, "b": 2}),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": 7}}}, 7),
        ({"$ref": "https://elsewhere.example/schema"}, {}),
        ({"$ref": "#/nowhere"}, {}),
        (True, {}),
        ({}, {}),
    ],
)
def test_the_example_fits_the_schema(schema: Any, wanted: Any) -> None:
    assert of(schema) == wanted


def test_a_recursive_schema_gives_a_limited_example() -> None:
    assert of({"$ref": "#"}) == FALLBACK
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    assert of(tree | {"required": ["left"]}) == FALLBACK
    line = of({"type": "object", "properties": {"name": {"const": "n"}, "next": {"$ref": "#"}}})
    assert line["next"]["next"]["name"] == "n"


def test_a_large_repeated_example_is_limited() -> None:
    schema = {
        "properties": {f"p{n}": {"$ref": "#/$defs/big"} for n in range(500)},
        "$defs": {"big": {"const": "x" * 50_000}},
    }
    assert of(schema) == FALLBACK
    assert of({"type": "string", "minLength": 10**9}) == FALLBACK


json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
words = [
    "type",
    "properties",
    "items",
    "required",
    "allOf",
    "oneOf",
    "enum",
    "examples",
    "$ref",
    "minLength",
    "maximum",
]


@given(st.dictionaries(st.sampled_from(words), json, max_size=5))
def test_every_schema_gives_a_payload(schema: dict[str, Any]) -> None:
    of(schema)


def test_the_example_of_a_common_schema_is_valid() -> None:
    schema = {
        "type": "object",
        "required": ["id", "customer", "lines"],
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "at": {"type": "string", "format": "date-time"},
            "customer": {"$ref": "#/definitions/customer"},
            "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}, "minItems": 1},
        },
        "definitions": {
            "customer": {"type": "object", "required": ["email"], "properties": {"email": {"type": "string"}}},
            "line": {"type": "object", "properties": {"count": {"type": "integer", "minimum": 2}}},
        },
    }
    assert jsonschema_rs.is_valid(schema, of(schema))
