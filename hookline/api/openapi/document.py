"""Generates the OpenAPI document from the operations and from the shapes that validate requests."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from hookline import __version__
from hookline.api.openapi.problems import PROBLEMS, HttpErrorOut, HTTPValidationError, described, problems
from hookline.api.openapi.schemas import Schema, Shapes, json_content, parameter, response, without_null
from hookline.api.openapi.webhooks import header, webhooks
from hookline.api.openapi.words import ABOUT, PATH_PARAMETERS, QUERY_PARAMETERS, TAGS
from hookline.api.operation import PREFIX, Operation
from hookline.api.routes import OPERATIONS
from hookline.model.catalogue import EventType
from hookline.web.invalid_fields import NAME


@functools.cache
def document() -> Schema:
    """Return the OpenAPI document without webhooks. It is the same for all callers."""
    shapes = Shapes(all_shapes())
    paths: dict[str, Schema] = {}
    for operation in sorted(OPERATIONS, key=lambda each: list(TAGS).index(each.tag)):
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = _operation(operation, shapes)
    for query in {operation.query for operation in OPERATIONS} - {None}:
        shapes.take(query)
    paths |= _public_paths()
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hookline", "version": __version__, "description": ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": tag, "description": text} for tag, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(shapes.components.items())),
            "responses": {problem.name: described(problem, shapes) for problem in PROBLEMS.values()},
            "headers": {"RetryAfter": _RETRY_AFTER, "IdempotentReplayed": _IDEMPOTENT_REPLAYED},
            "parameters": {"IdempotencyKey": _IDEMPOTENCY_KEY}
            | {name.title(): header(name, text, required=False) for name, text in _TRACE.items()},
            "securitySchemes": {"token": _TOKEN},
        },
    }


@functools.cache
def general() -> bytes:
    return describe([])


def describe(event_types: Iterable[EventType]) -> bytes:
    return msgspec.json.encode({**document(), "webhooks": webhooks(event_types)})


def all_shapes() -> Iterable[Any]:
    yield HttpErrorOut
    yield HTTPValidationError
    for operation in OPERATIONS:
        shapes = (operation.body, operation.query, *operation.answers.values())
        yield from (shape for shape in shapes if shape is not None)


# ── operations ────────────────────────────────────────────────────────────────────────────────────────────────────


def _operation(operation: Operation, shapes: Shapes) -> Schema:
    found: Schema = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary.removesuffix("."),
        "security": [{"token": [operation.needs.value]}],
        "parameters": [*_path_parameters(operation.path), *_query_parameters(operation, shapes)],
    }
    if operation.method == "POST":
        found["parameters"].append({"$ref": "#/components/parameters/IdempotencyKey"})
    if operation.traced:
        found["parameters"] += [{"$ref": f"#/components/parameters/{name.title()}"} for name in _TRACE]
    if operation.whole:
        found["description"] = "Needs a token of the whole organization, not of one application."
    if operation.operator:
        found["description"] = "Needs a token of the default organization, because it concerns the whole deployment."
    if operation.body is not None:
        schema = shapes.schema(operation.body)
        found["requestBody"] = {"required": not operation.body_optional, **json_content(schema)}
    found["responses"] = _answers(operation, shapes)
    return found


def _path_parameters(path: str) -> list[Schema]:
    schema = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": NAME}
    return [parameter(name, "path", PATH_PARAMETERS.get(name, ""), schema) for name in re.findall(r"{(\w+)}", path)]


def _query_parameters(operation: Operation, shapes: Shapes) -> list[Schema]:
    if operation.query is None:
        return []
    whole = shapes.resolve(shapes.schema(operation.query))
    required = whole.get("required", [])
    return [_query_parameter(name, schema, name in required) for name, schema in whole.get("properties", {}).items()]


def _query_parameter(name: str, schema: Schema, required: bool) -> Schema:
    shown = dict(without_null(schema))
    description = shown.pop("description", None) or QUERY_PARAMETERS.get(name, "")
    return parameter(name, "query", description, shown, required=required)


def _answers(operation: Operation, shapes: Shapes) -> Schema:
    answers = {
        str(status): response(_SUCCESS[status], None if shape is None else shapes.schema(shape))
        for status, shape in sorted(operation.answers.items())
    }
    if operation.method == "POST":
        for answer in answers.values():
            answer["headers"] = {"idempotent-replayed": {"$ref": "#/components/headers/IdempotentReplayed"}}
    return answers | problems(with_body=operation.body is not None)


_SUCCESS = {
    200: "Done.",
    201: "Created.",
    202: "Accepted. The request is stored and will be processed.",
    204: "Done. The response has no body.",
}


# ── what all operations use ──────────────────────────────────────────────────────────────────────────────────────

_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": (
        "An API key, or a JSON Web Token of an organization or of one application. "
        "Each operation names the scope that it needs: `read`, `write` or `publish`."
    ),
}

_RETRY_AFTER = {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}

_IDEMPOTENT_REPLAYED = {
    "description": "`true` if this is the stored response of an earlier request with the same idempotency key.",
    "schema": {"type": "string", "const": "true"},
}

_IDEMPOTENCY_KEY = parameter(
    "idempotency-key",
    "header",
    "A request with the same key runs once. Duplicates get the stored response for 24 hours.",
    {"type": "string", "minLength": 1, "maxLength": 256},
    required=False,
)

_TRACE = {
    "traceparent": "The caller's trace (W3C Trace Context). The endpoints get it. A malformed value is ignored.",
    "tracestate": "Vendor data of the traceparent. Entries beyond 512 characters are dropped.",
}


def _public_paths() -> dict[str, Schema]:
    """Return the paths that need no token."""
    alive = (204, "Check whether this process answers")
    this = (200, "Get this document. With a token, it includes the organization's event types", {"type": "object"})
    return {
        f"{PREFIX}/health": {"get": _public("health.get", *alive), "head": _public("health.head", *alive)},
        f"{PREFIX}/health/ping": {"get": _public("health.ping", *alive), "head": _public("health.ping-head", *alive)},
        f"{PREFIX}/openapi.json": {"get": _public("openapi.get", *this)},
    }


def _public(name: str, status: int, summary: str, schema: Schema | None = None) -> Schema:
    return {
        "operationId": f"v1.{name}",
        "tags": ["health"],
        "summary": summary,
        "security": [],
        "responses": {str(status): response(_SUCCESS[status], schema)} | problems(with_body=False),
    }
