"""Errors as JSON in the format of Svix: `{"code", "detail"}`, and a list of invalid fields for a 422.

A request for an unknown route gets JSON too, or an HTML page if it came from a browser.
"""

from __future__ import annotations

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hookline.errors import BlockedAddress, HooklineError, InvalidInput, StoreUnavailable
from hookline.services.errors import http_status
from hookline.web import html, invalid_fields
from hookline.web.invalid_fields import InvalidField

# The text that clients get during an outage. The error itself is only logged, because it may name the database's
# address.
UNAVAILABLE = "the database is not available now; try again in a moment"

log = structlog.get_logger(__name__)

_CODES = {
    400: "bad_request",
    401: "authentication_failed",
    403: "insufficient_access",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    413: "payload_too_large",
    429: "too_many_requests",
    431: "headers_too_large",
    500: "server_error",
    503: "unavailable",
}


class Refused(HooklineError):
    """The HTTP layer refuses the request with this status, such as 401, 413 or 429."""

    def __init__(self, status: int, detail: str, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.retry_after = retry_after  # seconds


def problem(status: int, detail: str, retry_after: int | None = None, allow: str | None = None) -> Response:
    headers = refusal_headers(status, retry_after)
    if allow is not None:
        headers["allow"] = allow
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return _json({"code": _CODES.get(status, "error"), "detail": detail}, status, headers)


def refusal_headers(status: int, retry_after: int | None = None) -> dict[str, str]:
    """Return the headers of a refusal, for any type of body."""
    headers = {}
    if retry_after is not None or status == 503:
        headers["retry-after"] = str(retry_after or 1)
    if status == 408:
        headers["connection"] = "close"  # the unread part of this request must not be read as the next request
    return headers


def _invalid(error: InvalidField) -> Response:
    return _json({"detail": [{"loc": [error.within, *error.loc], "msg": error.words, "type": "value_error"}]}, 422)


def _json(value: object, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def answer(error: Exception, within: str = "body") -> Response:
    """Return the response for an error of a handler. `within` is the part of the request that the error is about."""
    match error:
        case Refused():
            return problem(error.status, str(error), error.retry_after)
        case InvalidField():
            return _invalid(error)
        case msgspec.ValidationError():
            return _invalid(invalid_fields.of_shape(error))
        case msgspec.DecodeError():
            return problem(400, f"the body is not valid JSON: {error}")
        case InvalidInput() | BlockedAddress():
            return _invalid(invalid_fields.of_check(error, within))
        case StoreUnavailable():
            return problem(503, UNAVAILABLE)
    status = http_status(error)
    return problem(status, str(error) if status != 500 else "something went wrong here; it was logged")


async def on_error(request: Request, error: Exception) -> Response:
    response = answer(error, "query" if request.method in ("GET", "HEAD") else "body")
    if isinstance(error, StoreUnavailable):
        log_outage(request, error)
    elif response.status_code == 500:
        log.error("request_failed", method=request.method, path=request.url.path, exc_info=error)
    return response


def log_outage(request: Request, error: StoreUnavailable) -> None:
    log.warning("database_unavailable", method=request.method, path=request.url.path, error=str(error))


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Return the response for a 404 or 405 of Starlette."""
    assert isinstance(error, HTTPException)
    if error.status_code in (404, 405) and _browsing(request):
        return _nowhere(request, error.status_code)
    if error.status_code == 404:
        return problem(404, f"no such route: {request.method} {request.url.path}; /docs lists them")
    # Sorted, because Starlette lists the methods in varying order.
    allow = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", "))) or None
    if error.status_code == 405 and allow:
        return problem(405, f"{request.method} is not for this path: it takes {allow}", allow=allow)
    return problem(error.status_code, error.detail, allow=allow)


def _browsing(request: Request) -> bool:
    """Return whether a person with a browser sent the request, for example from an old bookmark."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")


def _nowhere(request: Request, status: int) -> Response:
    """Return a "not found" page. It shows no name or logo, because the portal may have another brand."""
    home = "/portal" if request.url.path.startswith("/portal/") else "/"
    made = html.page(
        html.tag("meta", charset="utf-8"),
        html.tag("meta", name="viewport", content="width=device-width"),
        html.tag("meta", name="color-scheme", content="light dark"),
        html.tag("title", "Not found"),
        html.tag("h1", "Not found"),
        html.tag("p", "There is no page at this address."),
        html.tag("p", html.tag("a", "Go to the overview", href=home)),
    )
    return Response(made, status, {"cache-control": "no-store"}, media_type="text/html")


async def on_crash(_request: Request, error: Exception) -> Response:
    """Return the response for an unexpected error.

    Starlette raises the error again afterwards, and the middleware logs it.
    """
    return answer(error)
