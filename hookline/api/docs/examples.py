"""Makes JSON examples for the API reference from the schemas."""

from __future__ import annotations

from typing import Any

from hookline import ids
from hookline.api.openapi.schemas import REF, Schema

_MAX_DEPTH = 4

_KSUID = "2fVbQ7w1m0uXo4GkS8rTnYcZq1D"

# Examples by field name. Other fields get an example of their type.
_BY_NAME = {
    "address": "192.0.2.1",
    "appId": f"{ids.APP}{_KSUID}",
    "cause": "requested by the customer",
    "channels": ["eu"],
    "description": "Orders of the shop",
    "endpointId": f"{ids.ENDPOINT}{_KSUID}",
    "endpointUrl": "https://example.com/hooks",
    "eventId": "order-1042-paid",
    "eventType": "order.paid",
    "eventTypes": ["order.paid"],
    "filterTypes": ["order.paid"],
    "gracePeriodSeconds": 86_400,
    "headers": {"x-team": "shop"},
    "messageId": f"{ids.MESSAGE}{_KSUID}",
    "metadata": {"plan": "gold"},
    "msgId": f"{ids.MESSAGE}{_KSUID}",
    "name": "Acme",
    "note": "refunded by hand",
    "orderingKey": "order-1042",
    "outcome": "delivered",
    "payload": {"order": 1042, "state": "paid"},
    "response": "ok",
    "responseStatusCode": 200,
    "status": "active",
    "reason": "attempts_exhausted",
    "tags": ["shop"],
    "uid": "acme",
    "url": "https://example.com/hooks",
}

# Examples for shapes whose name begins with a key of this dict. In these shapes, a field name has another meaning than
# elsewhere.
_BY_SHAPE = {
    "ApiKey": {"id": f"{ids.API_KEY}{_KSUID}", "name": "checkout service"},
    "Application": {"id": f"{ids.APP}{_KSUID}"},
    "AttemptOut": {"id": f"{ids.ATTEMPT}{_KSUID}"},
    "AttemptedMessage": {"id": f"{ids.MESSAGE}{_KSUID}"},
    "BackgroundTask": {"id": f"{ids.TASK}{_KSUID}"},
    "Dead": {"id": f"{ids.DEAD_LETTER}1042"},
    "Destination": {"id": f"{ids.ENDPOINT}{_KSUID}"},
    "Endpoint": {"id": f"{ids.ENDPOINT}{_KSUID}"},
    "EventType": {"name": "order.paid"},
    "Message": {"id": f"{ids.MESSAGE}{_KSUID}"},
    "OperationalWebhookEndpoint": {"id": f"{ids.ENDPOINT}{_KSUID}"},
    "Replayed": {"id": f"{ids.DEAD_LETTER}1042"},
}

# The example of a shape without required fields shows one field: the first of these that the shape has, or else the
# shape's own first field.
_LIKELY = ("reason", "readOnly", "gracePeriodSeconds")

_TYPES = {str: "string", int: "integer", list: "array", dict: "object"}

# Values of enumerations that an example shows if possible.
_USUAL = ("active", "running", "success", "standard", "none", "full", "full_jitter")


class Examples:
    def __init__(self, components: dict[str, Schema]) -> None:
        self._components = components

    def of(self, schema: Schema, *, required_only: bool = False) -> Any:
        """Return an example of a schema.

        With `required_only`, the example has only the required fields. If no field is required, it has one optional
        field, preferably one of `_LIKELY`.
        """
        return self._value(schema, "", "", 0, required_only)

    def _value(self, schema: Schema, name: str, shape: str, depth: int, brief: bool) -> Any:
        if "$ref" in schema:
            shape = schema["$ref"].removeprefix(REF)
            return self._value(self._components[shape], name, shape, depth, brief)
        if "default" in schema:
            return schema["default"]
        if "enum" in schema:
            return next((value for value in _USUAL if value in schema["enum"]), schema["enum"][0])
        if "anyOf" in schema:
            return self._value(schema["anyOf"][0], name, shape, depth, brief)
        return self._plain(schema, name, shape, depth, brief)

    def _plain(self, schema: Schema, name: str, shape: str, depth: int, brief: bool) -> Any:
        kinds = schema.get("type", [])
        kind = kinds if isinstance(kinds, str) else next(iter(kinds), None)
        if kind == "object" and "properties" in schema:
            return self._object(schema, shape, depth, brief) if depth < _MAX_DEPTH else {}
        special = (fields for start, fields in _BY_SHAPE.items() if shape.startswith(start) and name in fields)
        named: object = next(special, _BY_NAME).get(name)
        if named is not None and _has_type(kind, named):
            return named
        if kind == "array":
            return [self._value(schema["items"], name, shape, depth + 1, brief)] if depth < _MAX_DEPTH else []
        if kind == "string":
            return "2026-01-31T12:00:00Z" if schema.get("format") == "date-time" else "…"
        return {"integer": schema.get("minimum", 1), "number": 1.0, "boolean": False, "object": {}}.get(kind or "")

    def _object(self, schema: Schema, shape: str, depth: int, brief: bool) -> dict[str, Any]:
        required = schema.get("required", [])
        wanted = (required or [_likely(schema["properties"])]) if brief else schema["properties"]
        return {
            name: self._value(found, name, shape, depth + 1, brief)
            for name, found in schema["properties"].items()
            if name in wanted
        }


def _likely(properties: Schema) -> str:
    return next((name for name in _LIKELY if name in properties), next(iter(properties)))


def _has_type(kind: str | None, value: object) -> bool:
    return kind == _TYPES[type(value)] or (kind is None and isinstance(value, dict))
