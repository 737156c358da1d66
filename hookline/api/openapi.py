"""The API's own description, OpenAPI 3.1: generated from the operations that route and from the shapes that validate."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hookline import __version__
from hookline.api import catalogue_pages
from hookline.api.errors import on_error
from hookline.api.gate import identify
from hookline.api.operation import PREFIX, Operation
from hookline.api.routes import OPERATIONS
from hookline.api.schemas import Schema, Shapes, without_null
from hookline.api.services import Services
from hookline.model import EventType, Scope
from hookline.schema import newest
from hookline.store.base import Page

MOST_EVENT_TYPES = 1000  # in the `webhooks` section

ABOUT = """\
Hookline accepts messages over HTTP and delivers them as webhooks, or tells you exactly why not and replays them.

Send a token with each request: `Authorization: Bearer ...`. A path takes an id or, where there is one, the caller's own
`uid`. Listings have `data`, `done`, `iterator` and `prevIterator`; give one of the last two back to go on or to go back.
Every POST may carry an `Idempotency-Key`: the same request with the same key is done once, and answered twice.

A body is JSON, whatever its content type says; fields that are not known are ignored. Every answer has an `x-request-id`,
which the logs have too. `/app/` is `/app`.
"""

TAGS = {
    "application": "An application is one customer of yours: its endpoints and messages are kept apart from all others.",
    "event-type": "The catalogue of what may be sent, with JSON Schemas of the payloads where you have them.",
    "endpoint": "An endpoint is a URL of an application, with its secret, its filters, its limits and its policy.",
    "lane": "What governs an endpoint's open deliveries: circuit, throttle, pause.",
    "message": "A message is accepted once, and delivered to every endpoint that wants it.",
    "message-attempt": "Each HTTP request that was made for a delivery, with the receiver's answer.",
    "dead-letter": "Deliveries that gave up, with the reason. They can be replayed or resolved.",
    "statistics": "Counts of what was accepted, delivered and given up.",
    "background-task": "Work on many deliveries, and how far it is.",
    "operational-webhook": "Webhooks to yourself: what happens to endpoints and deliveries of all applications.",
    "alert": "What is wrong, or was: evaluated by Hookline itself.",
    "authentication": "Short-lived access for one application's own portal.",
    "api-key": "Keys with a scope, which can be revoked one by one.",
    "health": "Whether this process answers, and what it can be asked.",
}

PATH_PARAMETERS = {
    "app_id": "The application's id or uid.",
    "attempt_id": "The attempt's id.",
    "dead_letter_id": "The dead letter's id.",
    "endpoint_id": "The endpoint's id or uid.",
    "event_type_name": "The event type's name.",
    "key_id": "The key's id.",
    "msg_id": "The message's id, or the `eventId` it was given.",
    "task_id": "The task's id.",
}

# Where the parameter's own type does not say more.
QUERY_PARAMETERS = {
    "endpoint_id": "Only of this endpoint, by its id or uid.",
    "event_type": "Only of this event type.",
    "expunge": "Remove it for good, instead of archiving it.",
    "get_if_exists": "If there is one with this uid already, it is the answer, and nothing is changed.",
    "include_archived": "Archived ones too.",
    "iterator": "Where to go on: the answer's `iterator` or `prevIterator`.",
    "kind": "Only of this kind.",
    "limit": "How many at most.",
    "order": "By which end of the listing to begin.",
    "reason": "Only those that died for this reason.",
    "since": "From this instant on.",
    "state": "Only those in this state.",
    "status": "Only those with this status.",
    "status_code_class": "Only those that were answered so: 200 stands for 2xx, and so on.",
    "task": "Only of this kind, by the name that SDKs have for it.",
    "until": "Before this instant.",
    "with_content": "With the content, which may be large.",
}


class HttpErrorOut(Struct, frozen=True, kw_only=True):
    """What went wrong: a code for programs, a sentence for people."""

    code: str
    detail: str


class ValidationErrorItem(Struct, frozen=True, kw_only=True):
    loc: list[str]
    msg: str
    type: str


class HTTPValidationError(Struct, frozen=True, kw_only=True):
    """Where the request is not as it must be, and why."""

    detail: list[ValidationErrorItem]


class Problem(Struct, frozen=True):
    name: str
    description: str
    shape: type[Struct] = HttpErrorOut
    retry_after: bool = False


PROBLEMS = {
    400: Problem(
        "BadRequest", "The request cannot be read: not JSON, a parameter of another type, a control character."
    ),
    401: Problem("Unauthorized", "No token, or one that does not open anything."),
    403: Problem("Forbidden", "The token or key does not reach this."),
    404: Problem("NotFound", "There is no such thing, or it is another's."),
    408: Problem("RequestTimeout", "The body did not come in time."),
    409: Problem("Conflict", "It exists already, or is not in a state in which this can be done."),
    413: Problem("PayloadTooLarge", "The body is larger than is taken."),
    422: Problem("Invalid", "The request can be read, but a value in it cannot be taken.", HTTPValidationError),
    429: Problem(
        "TooManyRequests",
        "More requests than are taken from one caller, or more bad tokens than from one address.",
        retry_after=True,
    ),
    431: Problem("HeadersTooLarge", "The headers are larger than are taken, or there are too many."),
    500: Problem("ServerError", "A fault of ours. It was logged."),
    503: Problem("Unavailable", "The database is away. Nothing was changed; try again.", retry_after=True),
}

_ONLY_WITH_BODY = frozenset({408, 413})


def routes(services: Services) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        try:
            return _json(await _for_caller(services, request))
        except Exception as error:
            return await on_error(request, error)

    return [Route(f"{PREFIX}/openapi.json", show, methods=["GET"])]


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json", headers={"vary": "authorization"})


async def _for_caller(services: Services, request: Request) -> bytes:
    if "authorization" not in request.headers:
        return _general()
    caller = await identify(services, request.scope)
    services.limits.take(caller.holder, caller.org_id)
    if caller.scope == Scope.PUBLISH:
        return _general()
    page = Page(limit=MOST_EVENT_TYPES)
    found = await catalogue_pages.event_types(services.store, caller.org_id, page, archived=False, content=True)
    return describe(found.rows)


@functools.cache
def document() -> Schema:
    """Without webhooks: what is the same for everybody."""
    shapes = Shapes(all_shapes())
    paths: dict[str, Schema] = {}
    for operation in OPERATIONS:
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = _operation(operation, shapes)
    for query in {operation.query for operation in OPERATIONS} - {None}:
        shapes.take(query)
    paths |= _open_paths()
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hookline", "version": __version__, "description": ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": _tags(paths),
        "paths": paths,
        "components": {
            "schemas": dict(sorted(shapes.components.items())),
            "responses": {problem.name: _problem(problem, shapes) for problem in PROBLEMS.values()},
            "headers": {"RetryAfter": _RETRY_AFTER, "IdempotentReplayed": _IDEMPOTENT_REPLAYED},
            "parameters": {"IdempotencyKey": _IDEMPOTENCY_KEY}
            | {name.title(): _header(name, said, required=False) for name, said in _TRACE.items()},
            "securitySchemes": {"token": _TOKEN},
        },
    }


@functools.cache
def _general() -> bytes:
    return describe([])


def describe(event_types: Iterable[EventType]) -> bytes:
    return msgspec.json.encode({**document(), "webhooks": webhooks(event_types)})


def all_shapes() -> Iterable[Any]:
    yield HttpErrorOut
    yield HTTPValidationError
    for operation in OPERATIONS:
        yield from (
            shape for shape in (operation.body, operation.query, *operation.answers.values()) if shape is not None
        )


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
        found["description"] = "Needs a token of the default organization: it is about the whole deployment."
    if operation.body is not None:
        found["requestBody"] = {
            "required": not operation.body_optional,
            "content": {"application/json": {"schema": shapes.schema(operation.body)}},
        }
    found["responses"] = _answers(operation, shapes)
    return found


def _path_parameters(path: str) -> list[Schema]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PATH_PARAMETERS.get(name, ""),
            "schema": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": r"^[a-zA-Z0-9\-_.]+$"},
        }
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query_parameters(operation: Operation, shapes: Shapes) -> list[Schema]:
    if operation.query is None:
        return []
    whole = shapes.resolve(shapes.schema(operation.query))
    required = whole.get("required", [])
    return [_query_parameter(name, schema, name in required) for name, schema in whole.get("properties", {}).items()]


def _query_parameter(name: str, schema: Schema, required: bool) -> Schema:
    shown = dict(without_null(schema))
    description = shown.pop("description", None) or QUERY_PARAMETERS.get(name, "")
    return {"name": name, "in": "query", "required": required, "description": description, "schema": shown}


def _answers(operation: Operation, shapes: Shapes) -> Schema:
    answers = {str(status): _answer(status, shape, shapes) for status, shape in sorted(operation.answers.items())}
    if operation.method == "POST":
        for answer in answers.values():
            answer["headers"] = {"idempotent-replayed": {"$ref": "#/components/headers/IdempotentReplayed"}}
    return answers | _problems(with_body=operation.body is not None)


def _problems(*, with_body: bool) -> Schema:
    return {
        str(status): {"$ref": f"#/components/responses/{problem.name}"}
        for status, problem in PROBLEMS.items()
        if with_body or status not in _ONLY_WITH_BODY
    }


_SUCCESS = {
    200: "Done.",
    201: "Made.",
    202: "Accepted: it is stored, and will be done.",
    204: "Done; there is no body.",
}


def _answer(status: int, shape: Any, shapes: Shapes) -> Schema:
    found: Schema = {"description": _SUCCESS[status]}
    if shape is not None:
        found["content"] = {"application/json": {"schema": shapes.schema(shape)}}
    return found


def _tags(paths: dict[str, Schema]) -> list[Schema]:
    used = dict.fromkeys(tag for path in paths.values() for operation in path.values() for tag in operation["tags"])
    return [{"name": tag, "description": TAGS.get(tag, "")} for tag in used]


# ── what operations share ─────────────────────────────────────────────────────────────────────────────────────────

_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": (
        "An API key, or a JSON Web Token of an organization or of one application. "
        "`read`, `write` and `publish` are what a key's scope must allow."
    ),
}

_RETRY_AFTER = {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}

_IDEMPOTENT_REPLAYED = {
    "description": "`true` where this is the answer to an earlier request with the same idempotency key.",
    "schema": {"type": "string", "const": "true"},
}

_IDEMPOTENCY_KEY = {
    "name": "idempotency-key",
    "in": "header",
    "required": False,
    "description": "The same request with the same key is done once: the first answer is given again for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 256},
}

_TRACE = {
    "traceparent": "The caller's trace, as of W3C Trace Context: it goes on to the endpoints. One that is malformed is ignored.",
    "tracestate": "What belongs to the traceparent; of more than 512 characters, what fits.",
}


def _problem(problem: Problem, shapes: Shapes) -> Schema:
    found: Schema = {
        "description": problem.description,
        "content": {"application/json": {"schema": shapes.schema(problem.shape)}},
    }
    if problem.retry_after:
        found["headers"] = {"retry-after": {"$ref": "#/components/headers/RetryAfter"}}
    return found


def _open_paths() -> dict[str, Schema]:
    """What anybody may ask, without a token."""
    health = _open("v1.health.get", "Whether this process answers", 204)
    ping = _open("v1.health.ping", "Whether this process answers", 204)
    this = _open("v1.openapi.get", "This document; with a token, with the organization's event types", 200)
    this["responses"]["200"]["content"] = {"application/json": {"schema": {"type": "object"}}}
    return {
        f"{PREFIX}/health": {"get": health, "head": {**health, "operationId": "v1.health.head"}},
        f"{PREFIX}/health/ping": {"get": ping, "head": {**ping, "operationId": "v1.health.ping-head"}},
        f"{PREFIX}/openapi.json": {"get": this},
    }


def _open(name: str, summary: str, status: int) -> Schema:
    return {
        "operationId": name,
        "tags": ["health"],
        "summary": summary,
        "security": [],
        "responses": {str(status): {"description": _SUCCESS[status]}} | _problems(with_body=False),
    }


# ── webhooks ──────────────────────────────────────────────────────────────────────────────────────────────────────

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
                *(_header(*each) for each in _HEADERS.items()),
                *(_header(*each, required=False) for each in _TRACE_HEADERS.items()),
            ],
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
            "responses": {
                "2XX": {"description": "Received. Anything else is tried again, or becomes a dead letter."},
            },
        }
    }


def _header(name: str, description: str, *, required: bool = True) -> Schema:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": {"type": "string"},
    }
