"""Decide what happens to a request. No I/O.

A key is in use while the handler of its first request runs, and finished when the response is saved. A request with the
same method, path, query and body is a copy.

| the request                                              | the response                                             |
|----------------------------------------------------------|----------------------------------------------------------|
| its path is outside `only`                               | the application's                                        |
| its method is not in `methods`, and no verifier is set   | the application's                                        |
| no body, a safe method not in `methods`, `only` is empty | the application's, without verification                  |
| its body is longer than `max_body`                       | 413                                                      |
| the verifier refuses it                                  | 401, before the key is read                              |
| it has no key                                            | the application's, or 400 if `required` is set           |
| its key is malformed                                     | 400                                                      |
| its key is new, or its first handler's process died      | the application's, which is saved                        |
| a copy, and its key is finished                          | the saved one, with `idempotency-replayed: true`         |
| no copy, but its key is finished or in use               | 422                                                      |
| a copy, and its key is in use                            | 409 with `Retry-After`                                   |
| it has a key, and the store of keys is down              | 503 with `Retry-After`, or the application's (see below) |

`only`, `methods` and `required` are settings of the middleware. The setting `when_unavailable` chooses the response
while the store is down. Safe methods are GET, HEAD, OPTIONS and TRACE.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hookline.errors import InvalidInput, VerificationError
from hookline.receive.idempotency import problems
from hookline.receive.idempotency.keys import Answer, InProgress, Mismatch, Replay, StoredResponse, key_of
from hookline.receive.idempotency.paths import is_below, key_path, same_path
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.settings import KEY_HEADERS, IdempotencySettings, IncomingRequest
from hookline.receive.verify import Webhook
from hookline.signing.headers import Headers

LONGEST_KEY = 255
# The name of an entry in the ASGI scope, the WSGI environ or the attributes of a Django request. The entry is the set
# of the idempotency keys that a middleware already handles for this request: see `is_new`.
CLAIMS = "hookline.claims"
REPLAYED, WITHOUT_BODY = b"idempotency-replayed", b"idempotency-body-omitted"

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_is_length = re.compile(r"[0-9]+").fullmatch

# A key without quotes has no comma. Some servers join two headers with a comma, and a request with two keys must be
# refused.
_is_bare = re.compile(r"[!#-+\--~]+").fullmatch
_is_quoted = re.compile(r'"(?:[ !#-\[\]-~]|\\["\\])*"').fullmatch
_escape = re.compile(r"\\(.)")

log = logging.getLogger("hookline.receive")


class MalformedKey(ValueError):
    """A `key` function raises this to refuse the request. The answer is 400 with the text of the error."""


# ── before the body ───────────────────────────────────────────────────────────────────────────────────────────────


class Plan(Struct, frozen=True):
    """What the middleware does with a request.

    If neither `verifies` nor `keyed` is true, the request passes through.
    """

    verifies: bool = False
    keyed: bool = False
    spares_empty: bool = False  # a request without a body need not be verified, such as a page or a health check

    def __bool__(self) -> bool:
        return self.verifies or self.keyed


NOTHING = Plan()


def plan(settings: IdempotencySettings, method: str, *paths: str, ends: bool = True) -> Plan:
    """Decide by method and path alone what the middleware does with a request.

    `paths` are all forms of the path, with and without the root path of the application. If `ends` is
    True, the character after an entry of `only` must not be a letter, a digit, `-` or `_`. So `/hooksy` is below the
    entry `/hooks` only if `ends` is False.
    """
    if settings.only and not any(is_below(path, settings.only, ends=ends) for path in {*paths}):
        return NOTHING
    keyed = any(method == name.upper() for name in settings.methods)
    if settings.verifier is None:
        return Plan(keyed=keyed)
    return Plan(verifies=True, keyed=keyed, spares_empty=method in _SAFE and not keyed and not settings.only)


def needs_body(settings: IdempotencySettings, chosen: Plan, headers: Headers) -> bool:
    """Return whether the middleware must read the body. Raise `Answered` if the headers alone make it refuse."""
    if not chosen.verifies and not callable(settings.key) and _key_from_headers(settings, headers) is None:
        return False
    check_length(settings, headers)
    return True


def check_length(settings: IdempotencySettings, headers: Headers) -> None:
    """Raise `Answered` if Content-Length is above the limit."""
    if (content_length(headers) or 0) > settings.max_body:
        raise Answered(problems.body_too_large(settings.max_body))


def content_length(headers: Headers) -> int | None:
    """Return the value of Content-Length, or None if it is missing or not a number."""
    length = headers.get("content-length", "")
    if not _is_length(length):
        return None
    return int(length) if len(length) < 19 else 10**18  # int() refuses more than 4,300 digits


def _key_from_headers(settings: IdempotencySettings, headers: Headers) -> str | None:
    assert not callable(settings.key)
    key = _named_key(settings.key or KEY_HEADERS, headers)
    if key is None and settings.required:
        raise Answered(problems.KEY_MISSING)
    return key


# ── with the body ─────────────────────────────────────────────────────────────────────────────────────────────────


class Claim(Struct, frozen=True):
    """The key of a request, and the hash that identifies the request."""

    key: bytes
    fingerprint: bytes


def examine(
    settings: IdempotencySettings, chosen: Plan, request: IncomingRequest
) -> tuple[IncomingRequest, Claim | None]:
    """Return the request with its verified webhook, and its claim if it has a key. Raise `Answered` to refuse it."""
    if chosen.verifies and (request.body or not chosen.spares_empty):
        request = msgspec.structs.replace(request, webhook=verify(settings, request))
    # No scheme signs the method. A webhook that is sent again with another method must have the same key.
    is_keyed = chosen.keyed or request.webhook is not None
    given = _given_key(settings, request) if is_keyed else None
    if given is None:
        if chosen.keyed and settings.required:
            raise Answered(problems.KEY_MISSING)
        return request, None
    return request, Claim(key_of(_scope(settings, request), given), fingerprint(request))


def is_new(claim: Claim, claims: set[bytes]) -> bool:
    """Add the key of `claim` to `claims`, the keys that outer middlewares handle for the same request.

    Return False if the key is already in `claims`. An outer middleware then handles the key, and this middleware only
    calls the application.
    """
    if claim.key in claims:
        return False
    claims.add(claim.key)
    return True


def verify(settings: IdempotencySettings, request: IncomingRequest) -> Webhook:
    """Return the verified webhook of a request. Raise `Answered` if the verifier refuses it."""
    assert settings.verifier is not None
    url = settings.url(request) if settings.url else request.url
    try:
        return settings.verifier.verify(request.headers, request.body, url=url)
    except VerificationError as fault:
        log.warning("webhook refused at %r: %s (%s)", request.path[:200], fault, fault.code.value)
        raise Answered(problems.SIGNATURE_INVALID) from None


def _given_key(settings: IdempotencySettings, request: IncomingRequest) -> str | bytes | None:
    source = settings.key
    if source is None:
        source = KEY_HEADERS if request.webhook is None else from_webhook
    if not callable(source):
        return _named_key(source, request.headers)
    try:
        given = source(request)
    except (MalformedKey, VerificationError) as fault:
        raise Answered(problems.key_malformed(str(fault))) from None
    if given is None:
        return None
    if not isinstance(given, str | bytes):
        raise InvalidInput(f"the function gave a {type(given).__name__}; return a str, bytes or None", field="key")
    if not given:
        raise Answered(problems.key_malformed("the idempotency key is empty"))
    return given


def _scope(settings: IdempotencySettings, request: IncomingRequest) -> Sequence[str | bytes]:
    """Return the parts that make a key unique. The root path is left out: some servers let the client choose it."""
    below = request.path if request.below is None else request.below
    path = key_path(below) if settings.per_path else ""
    owner = settings.scope(request) if settings.scope else ()
    parts = (owner,) if isinstance(owner, str | bytes) else owner
    if not isinstance(parts, Sequence) or not all(isinstance(part, str | bytes) for part in parts):
        raise InvalidInput(f"the function gave {owner!r:.60}; return a str, bytes, or a list of them", field="scope")
    return (*_receiver(settings, request), path, *parts)


def _receiver(settings: IdempotencySettings, request: IncomingRequest) -> tuple[bytes, ...]:
    """Return the verifier's identity, as a part of the key's scope.

    A sender sends an event with the same id to several receivers. If the receivers share a key store, the identity
    keeps their keys apart.
    """
    identity = getattr(settings.verifier, "identity", None)  # a custom verifier class may have no identity
    return () if identity is None or request.webhook is None else (identity,)


def fingerprint(request: IncomingRequest) -> bytes:
    """Return a hash of method, path, query and raw body. Two requests with equal hashes are copies."""
    return key_of((request.method, same_path(request.path), request.query), request.body)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def from_webhook(request: IncomingRequest) -> str | None:
    """Use the id of the verified webhook as the key. If the scheme signs the id, nobody else can choose it."""
    return None if request.webhook is None else request.webhook.id


from_webhook.needs_verifier = True  # type: ignore[attr-defined]


def from_json(*path: str) -> Callable[[IncomingRequest], str | None]:
    """Make a `key` function that reads a string or an integer from the JSON body, such as `from_json("event",
    "id")`."""

    def key(request: IncomingRequest) -> str | None:
        value = _decoded(request.body)
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None

    return key


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise MalformedKey("the body is not JSON") from None


def _named_key(names: Sequence[str], headers: Headers) -> str | None:
    """Return the key in the first of the named headers that is present.

    If the value of this header is malformed, the other headers are not tried.
    """
    for name in names:
        try:
            value = headers.optional(name)
        except VerificationError as fault:
            raise Answered(problems.key_malformed(str(fault))) from None
        if value is not None:
            return _parsed_key(name, value.strip(" "))
    return None


def _parsed_key(name: str, value: str) -> str:
    """Return the key in the value of a header: a quoted string (RFC 8941), or the same without quotes."""
    if _is_quoted(value):
        key = _escape.sub(r"\1", value[1:-1])
    elif _is_bare(value):
        key = value
    else:
        raise Answered(problems.key_malformed(f"the header {name} is malformed"))
    if not 1 <= len(key) <= LONGEST_KEY:
        raise Answered(problems.key_malformed(f"a key in {name} has 1 to {LONGEST_KEY} characters"))
    return key


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def answer_to(answer: Answer) -> StoredResponse | None:
    """Return the response to send, or None if the handler must run."""
    match answer:
        case Replay(response):
            return replay(response)
        case InProgress(retry_after):
            return problems.in_progress(retry_after)
        case Mismatch():
            return problems.KEY_REUSED
        case _:
            return None


def replay(kept: StoredResponse) -> StoredResponse:
    headers = [*kept.headers, (REPLAYED, b"true")]
    if kept.status >= 200 and kept.status not in (204, 304):  # 204 and 304 have no body, and no Content-Length
        headers.append((b"content-length", b"%d" % len(kept.body)))
    return StoredResponse(kept.status, tuple(headers), kept.body)
