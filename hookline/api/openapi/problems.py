"""Descriptions of the error responses. `hookline.web.errors` sends errors in these shapes."""

from __future__ import annotations

from msgspec import Struct

from hookline.api.openapi.schemas import Schema, Shapes, response


class HttpErrorOut(Struct, frozen=True, kw_only=True):
    """An error: a code for programs and a sentence for people."""

    code: str
    detail: str


class ValidationErrorItem(Struct, frozen=True, kw_only=True):
    loc: list[str]
    msg: str
    type: str


class HTTPValidationError(Struct, frozen=True, kw_only=True):
    """The fields of the request that are wrong, and the reasons."""

    detail: list[ValidationErrorItem]


class Problem(Struct, frozen=True):
    name: str
    description: str
    shape: type[Struct] = HttpErrorOut
    retry_after: bool = False


PROBLEMS = {
    400: Problem(
        "BadRequest",
        "The request cannot be read: it is not JSON, a parameter has a wrong type, or a value has control characters.",
    ),
    401: Problem("Unauthorized", "The token is missing or not valid."),
    403: Problem("Forbidden", "The token or key does not allow this."),
    404: Problem("NotFound", "The resource does not exist, or it belongs to another organization or application."),
    408: Problem("RequestTimeout", "The body did not arrive in time."),
    409: Problem("Conflict", "The resource exists already, or its state does not allow this."),
    413: Problem("PayloadTooLarge", "The body is larger than the limit."),
    422: Problem("Invalid", "The request can be read, but a value in it is not allowed.", HTTPValidationError),
    429: Problem(
        "TooManyRequests",
        "The caller sent too many requests, or the address sent too many bad tokens.",
        retry_after=True,
    ),
    431: Problem("HeadersTooLarge", "The headers are too large, or there are too many."),
    500: Problem("ServerError", "An error in the server. It was logged."),
    503: Problem("Unavailable", "The database is not available. Nothing was changed. Try again.", retry_after=True),
}

_ONLY_WITH_BODY = frozenset({408, 413})


def problems(*, with_body: bool) -> Schema:
    return {
        str(status): {"$ref": f"#/components/responses/{problem.name}"}
        for status, problem in PROBLEMS.items()
        if with_body or status not in _ONLY_WITH_BODY
    }


def described(problem: Problem, shapes: Shapes) -> Schema:
    found = response(problem.description, shapes.schema(problem.shape))
    if problem.retry_after:
        found["headers"] = {"retry-after": {"$ref": "#/components/headers/RetryAfter"}}
    return found
