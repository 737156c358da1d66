"""What receivers get: one entry for each event type."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.api.openapi.schemas import Schema
from hookline.model import EventType
from hookline.services.schemas.validate import newest

_HEADERS = {
    "webhook-id": "The message's id: the same on every attempt.",
    "webhook-timestamp": "When this attempt was signed, in seconds since 1970.",
    "webhook-signature": "`v1,` and the signature in base64; several are separated by spaces.",
}
_TRACE_HEADERS = {
    "traceparent": "The trace of whoever published the message, where there is one; with OpenTelemetry, the attempt in it.",
    "tracestate": "What belongs to the traceparent.",
}


def webhooks(event_types: Iterable[EventType]) -> dict[str, Schema]:
    """A section that tells receivers what they get: one entry per event type, or one for any."""
    named = {each.name: _webhook(each) for each in event_types}
    return named or {"message": _delivery("message", "Any message", {})}


def _webhook(event_type: EventType) -> Schema:
    found = _delivery(event_type.name, event_type.description or event_type.name, _newest_schema(event_type))
    if event_type.deprecated:
        found["post"]["deprecated"] = True
    return found


def _newest_schema(event_type: EventType) -> Schema | bool:
    """The schema with the highest version. As a resource with its own `$id`, its `#/...` means itself, not this document."""
    schemas = event_type.schemas or {}
    if not schemas:
        return {}
    version = newest(schemas)
    schema = schemas[version]
    if not isinstance(schema, dict):
        return bool(schema)
    return {"$id": f"urn:hookline:event-type:{event_type.name}:{version}", **schema}


def _delivery(name: str, summary: str, schema: Schema | bool) -> Schema:
    return {
        "post": {
            "operationId": f"webhook.{name}",
            "summary": summary,
            "security": [],
            "parameters": [
                *(header(*each) for each in _HEADERS.items()),
                *(header(*each, required=False) for each in _TRACE_HEADERS.items()),
            ],
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
            "responses": {
                "2XX": {"description": "Received. Anything else is tried again, or becomes a dead letter."},
            },
        }
    }


def header(name: str, description: str, *, required: bool = True) -> Schema:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": {"type": "string"},
    }
