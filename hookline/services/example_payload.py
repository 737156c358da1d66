"""Make a test payload: the example in the event type's newest schema, or one generated from that schema.

Pure functions. Schemas are untrusted: they may refer to themselves, and may use a large example in many places.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from hookline.model.catalogue import EventType
from hookline.services.schemas.validate import newest, pointed_at

MAX_SIZE = 64 * 1024  # approximate maximum size of a payload, in bytes
MAX_NESTED = 20

_TEXTS = {
    "date-time": "2025-01-31T12:34:56Z",
    "date": "2025-01-31",
    "time": "12:34:56Z",
    "duration": "PT15M",
    "email": "ada@example.com",
    "idn-email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uri-reference": "/path",
    "uuid": "3f2b7c1e-9d4a-4e8b-a6c5-0f1e2d3c4b5a",
}


def payload(event_type: EventType, now: datetime) -> bytes:
    schema = event_type.schemas[newest(event_type.schemas)] if event_type.schemas else None
    made = None if schema is None else _Maker(schema).make()
    return made or msgspec.json.encode({"type": event_type.name, "timestamp": now, "data": {"example": True}})


class _TooLarge(Exception):
    pass


class _Maker:
    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._left = MAX_SIZE

    def make(self) -> bytes | None:
        """Return the payload, or None if it would be too large or too deeply nested."""
        try:
            return msgspec.json.encode(self._value(self._root, 0))
        except (_TooLarge, RecursionError):
            return None

    def _value(self, schema: Any, depth: int) -> Any:
        self._spend(1)
        if depth > MAX_NESTED:
            raise _TooLarge
        if not isinstance(schema, Mapping):
            return {}
        if (given := _given(schema)) is not None:
            self._spend(len(msgspec.json.encode(given[0])))
            return given[0]
        if isinstance(reference := schema.get("$ref"), str):
            part = pointed_at(self._root, reference) if reference.startswith("#") else None
            return self._value(part, depth + 1)  # if the reference has no target, `part` is None: the value is {}
        if isinstance(parts := schema.get("allOf"), list) and parts:
            return self._all(schema, parts, depth)
        for choice in ("oneOf", "anyOf"):
            if isinstance(options := schema.get(choice), list) and options:
                return self._value(options[0], depth + 1)
        return self._typed(schema, depth)

    def _all(self, schema: Mapping[str, Any], parts: list[Any], depth: int) -> Any:
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        values = [self._value(part, depth + 1) for part in [*parts, rest]]
        if all(isinstance(value, dict) for value in values):
            return {name: each for value in values for name, each in value.items()}
        return values[0]

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Any:
        match _type(schema):
            case "array":
                return [self._value(schema.get("items", {}), depth + 1)]
            case "string":
                return self._text(schema)
            case "integer" | "number" as kind:
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self._object(schema, depth)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """Leave out optional properties in deep objects, so that a schema that refers to itself does not recurse
        forever."""
        made: dict[str, Any] = {}
        properties = schema.get("properties")
        required = schema.get("required")
        for name, part in properties.items() if isinstance(properties, Mapping) else ():
            if depth < MAX_NESTED // 2 or (isinstance(required, list) and name in required):
                self._spend(len(name))
                made[name] = self._value(part, depth + 1)
        return made

    def _text(self, schema: Mapping[str, Any]) -> str:
        shortest, longest = _bound(schema, "minLength", 0), _bound(schema, "maxLength", MAX_SIZE)
        self._spend(shortest)
        return _TEXTS.get(str(schema.get("format")), "text").ljust(shortest, "x")[:longest]

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _TooLarge


def _given(schema: Mapping[str, Any]) -> tuple[Any] | None:
    """Return the value that the schema itself gives as constant, example, default or first choice. A tuple holds it,
    because the value itself may be None."""
    for name in ("const", "example", "default"):
        if name in schema:
            return (schema[name],)
    for name in ("examples", "enum"):
        if isinstance(values := schema.get(name), list) and values:
            return (values[0],)
    return None


def _type(schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        return next((each for each in kind if each != "null"), None)
    if kind is None and "items" in schema:
        return "array"
    return kind


def _number(schema: Mapping[str, Any], *, whole: bool) -> int | float:
    value: int | float = 1 if whole else 1.5
    for bound, nearest in (("minimum", max), ("maximum", min)):
        limit = schema.get(bound)
        if isinstance(limit, int | float) and not isinstance(limit, bool):
            value = nearest(value, limit)
    return int(value) if whole else value


def _bound(schema: Mapping[str, Any], name: str, default: int) -> int:
    value = schema.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
