"""What goes wrong, in the shapes that `hookline.web.errors` answers with."""

from __future__ import annotations

from msgspec import Struct

from hookline.api.openapi.schemas import Schema, Shapes


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


def problems(*, with_body: bool) -> Schema:
    return {
        str(status): {"$ref": f"#/components/responses/{problem.name}"}
        for status, problem in PROBLEMS.items()
        if with_body or status not in _ONLY_WITH_BODY
    }


def described(problem: Problem, shapes: Shapes) -> Schema:
    found: Schema = {
        "description": problem.description,
        "content": {"application/json": {"schema": shapes.schema(problem.shape)}},
    }
    if problem.retry_after:
        found["headers"] = {"retry-after": {"$ref": "#/components/headers/RetryAfter"}}
    return found
