"""The error responses of the middleware, as problem+json (RFC 9457)."""

from __future__ import annotations

import math

import msgspec

from hookline.receive.idempotency.keys import StoredResponse

_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    409: "Conflict",
    413: "Content Too Large",
    422: "Unprocessable Content",
    503: "Service Unavailable",
}


class Answered(Exception):
    """The handler must not run. `response` is the answer: an error, or the saved response of an earlier request."""

    def __init__(self, response: StoredResponse) -> None:
        super().__init__(response.status)
        self.response = response


def problem(status: int, code: str, detail: str, *, retry_after: float | None = None) -> StoredResponse:
    content = {"type": "about:blank", "title": _TITLES[status], "status": status, "detail": detail, "code": code}
    body = msgspec.json.encode(content)
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(retry_after))))
    return StoredResponse(status, tuple(headers), body)


KEY_MISSING = problem(400, "key_missing", "this request needs an idempotency key")
BODY_INCOMPLETE = problem(400, "body_incomplete", "the body ended before its announced length")
# This text does not say what is wrong with the signature. The receiver's log says it.
SIGNATURE_INVALID = problem(401, "signature_invalid", "the signature of this webhook could not be verified")
KEY_REUSED = problem(422, "key_reused", "this idempotency key was used for another request")
_NOT_KNOWN = "it is unknown whether this request was processed before"
_NO_STORE = f"the store of idempotency keys is not available, so {_NOT_KNOWN}"
STORE_UNAVAILABLE = problem(503, "store_unavailable", _NO_STORE, retry_after=5)


def key_malformed(detail: str) -> StoredResponse:
    return problem(400, "key_malformed", detail)


def in_progress(retry_after: float) -> StoredResponse:
    """Return the response to a copy of a request that still runs. It always has `Retry-After`, because without that
    header a client takes a 409 as final."""
    detail = "a request with this idempotency key is still being processed; try again later"
    return problem(409, "in_progress", detail, retry_after=retry_after)


def body_too_large(limit: int) -> StoredResponse:
    return problem(413, "body_too_large", f"the body must not be longer than {limit} bytes")
