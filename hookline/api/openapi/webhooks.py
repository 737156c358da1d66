"""The `webhooks` section of the OpenAPI document: one entry for each event type."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.api.openapi.schemas import Schema, json_content, parameter, response
from hookline.model.catalogue import EventType
from hookline.services.schemas.validate import newest

_HEADERS = {
    "webhook-id": "The message id, the same on every attempt.",
    "webhook-timestamp": "The time at which this attempt was signed, in seconds since 1970.",
    "webhook-signature": "`v1,` and the signature in base64. Several signatures are separated by spaces.",
}
_TRACE_HEADERS = {
    "traceparent": "The trace of the publisher, if it sent one. With OpenTelemetry it names the span of the attempt.",
    "tracestate": "Vendor data of the traceparent.",
}


def webhooks(event_types: Iterable[EventType]) -> dict[str, Schema]:
    """Return one entry per event type, or one general entry if there are no event types."""
    named = {each.name: _webhook(each) for each in event_types}
    return named or {"message": _delivery("message", "Any message", {})}


def _webhook(event_type: EventType) -> Schema:
    found = _delivery(event_type.name, event_type.description or event_type.name, _newest_schema(event_type))
    if event_type.deprecated:
        found["post"]["deprecated"] = True
    return found


def _newest_schema(event_type: EventType) -> Schema | bool:
    """Return the schema with the highest version.

    The schema gets an `$id`, so that its references `#/...` point into the schema, not into the OpenAPI document.
    """
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
            "requestBody": {"required": True, **json_content(schema)},
            "responses": {"2XX": response("Received. Any other response leads to a retry or a dead letter.")},
        }
    }


def header(name: str, description: str, *, required: bool = True) -> Schema:
    return parameter(name, "header", description, {"type": "string"}, required=required)
