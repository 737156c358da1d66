"""JSON Schemas of the JSON shapes of the API. msgspec generates the schemas. This module simplifies them for readers
and client generators."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import msgspec

Schema = dict[str, Any]

REF = "#/components/schemas/"

_TYPES = {str: "string", int: "integer"}


class Shapes:
    """The schemas of some shapes and of all shapes that they reference."""

    def __init__(self, shapes: Iterable[Any]) -> None:
        distinct = list(dict.fromkeys(shapes))
        schemas, components = msgspec.json.schema_components(distinct, ref_template=REF + "{name}")
        self._schemas: dict[Any, Schema] = dict(zip(distinct, map(simplified, schemas), strict=True))
        self.components: dict[str, Schema] = {name: simplified(schema) for name, schema in components.items()}

    def schema(self, shape: Any) -> Schema:
        """Return the schema of a shape. For a named shape this is a reference to the components."""
        return self._schemas[shape]

    def take(self, shape: Any) -> Schema:
        """Remove a named shape from the components and return its schema."""
        return self.components.pop(name_of(self.schema(shape)))

    def resolve(self, schema: Schema) -> Schema:
        return self.components[name_of(schema)] if "$ref" in schema else schema


def name_of(reference: Schema) -> str:
    name: str = reference["$ref"].removeprefix(REF)
    return name


def parameter(name: str, place: str, description: str, schema: Schema, *, required: bool = True) -> Schema:
    return {"name": name, "in": place, "required": required, "description": description, "schema": schema}


def response(description: str, schema: Schema | None = None) -> Schema:
    return {"description": description} | ({} if schema is None else json_content(schema))


def json_content(schema: Schema | bool) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}


def simplified(schema: Any) -> Any:
    """Return a shorter schema with the same meaning: without `default: null` and `required: []`, and with
    `type: [T, "null"]` in place of `anyOf` with null."""
    if isinstance(schema, list):
        return [simplified(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: simplified(value) for key, value in schema.items() if not _is_redundant(key, value)}
    if isinstance(found.get("description"), str):
        found["description"] = inspect.cleandoc(found["description"])
    if "enum" in found and "type" not in found:
        found["type"] = _type_of(found["enum"])
    return _or_null(found)


def _is_redundant(key: str, value: Any) -> bool:
    return (key == "default" and value is None) or (key == "required" and value == [])


def _type_of(values: list[Any]) -> Any:
    types = sorted({_TYPES[type(value)] for value in values})
    return types[0] if len(types) == 1 else types


def _or_null(schema: Schema) -> Schema:
    """Write `{"anyOf": [{"type": "string"}, {"type": "null"}]}` as `{"type": ["string", "null"]}`."""
    match schema.get("anyOf"):
        case [{"type": str(kind)} as inner, {"type": "null"}] if "enum" not in inner:
            around = {key: value for key, value in schema.items() if key != "anyOf"}
            return {**inner, **around, "type": [kind, "null"]}
    return schema


def without_null(schema: Schema) -> Schema:
    """Return the schema without null, for a query parameter. A caller can omit the parameter, but cannot send null."""
    if isinstance(schema.get("type"), list):
        return {**schema, "type": next(kind for kind in schema["type"] if kind != "null")}
    match schema.get("anyOf"):
        case [dict(inner), {"type": "null"}]:
            around = {key: value for key, value in schema.items() if key != "anyOf"}
            return {**inner, **around}
    return schema
