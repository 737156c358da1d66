"""What the middleware is told: which requests, which key, what is kept and for how long. Checked when it is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from hookline.errors import InvalidInput
from hookline.receive.idempotency.paths import plain_path
from hookline.signing.headers import Headers

if TYPE_CHECKING:
    from hookline.receive.verify import Verifier, Webhook

__all__ = ["KEY_HEADERS", "IdempotencySettings", "IncomingRequest", "is_final", "succeeded"]

KEY_HEADERS = ("Idempotency-Key", "webhook-id", "svix-id", "X-GitHub-Delivery", "X-Shopify-Webhook-Id")

# Whoever gets one of these may come again under the same key, and is to be heard then: signed in, allowed, in its turn, or when
# there is something at this path. 404 and 405 also come from routers, to whoever sends there, before any handler runs.
_PASSING = frozenset({401, 403, 404, 405, 408, 409, 425, 429})

_CENTURY = 100 * 365.25 * 86400  # an instant beyond what a database can have would fail only after the handler

_is_name = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch


class IncomingRequest(Struct, frozen=True):
    """What a `key`, `scope` or `url` function is asked about."""

    method: str
    path: str  # decoded, without the query
    query: bytes
    headers: Headers
    url: str  # as this server sees it: behind a proxy, host and scheme may be others than the sender's
    native: Any  # the ASGI scope, the WSGI environ, or Django's request
    body: bytes = b""
    webhook: Webhook | None = None  # verified; only with a verifier
    below: str | None = None  # what the router goes by: `path` without the root that the server names; None: the same


def is_final(status: int) -> bool:
    """The default of `keeps`: all but server errors and what asks the client to come again."""
    return status < 500 and status not in _PASSING


def succeeded(status: int) -> bool:
    """For `keeps`: every failure may be tried again, so that a webhook can be replayed once the handler is mended."""
    return 200 <= status < 300


class IdempotencySettings(Struct, frozen=True, kw_only=True):
    # Where the key comes from: names of headers, the first one there counts, or a function (None: this request has none).
    # By default the verified webhook's id; without a verifier, KEY_HEADERS.
    key: Sequence[str] | Callable[[IncomingRequest], str | bytes | None] | None = None
    # Whose key it is, such as the tenant's id: the same key of another is another key.
    scope: Callable[[IncomingRequest], str | bytes | Sequence[str | bytes]] | None = None
    # A key belongs to one path, because senders give one event the same id at all of a receiver's endpoints.
    # False: a key that comes again at another path is refused with 422.
    per_path: bool = True
    required: bool = False  # a request without a key: 400, or pass through
    methods: Sequence[str] = ("POST", "PUT", "PATCH", "DELETE")  # a verified webhook has its key whatever its method
    only: Sequence[str] = ()  # these paths and all below them, however they are spelled; () is every path
    # What it refuses gets 401: whatever the method at the paths of `only`; elsewhere all but safe methods without a body.
    verifier: Verifier | None = None
    url: Callable[[IncomingRequest], str] | None = None  # the address that the sender signed (Twilio), behind a proxy
    keeps: Callable[[int], bool] = is_final  # which statuses; an error with `Retry-After` is never kept
    forgets: Sequence[str] = ("set-cookie",)  # headers of a response that are not kept, beside the connection's own
    lease: float = 30.0  # seconds until another copy may take over from one that died; renewed at a third
    ttl: float = 96 * 3600.0  # seconds for which an answer is kept: longer than the longest sender goes on
    max_body: int = 1 << 20  # bytes of a request that has a key, or is verified: 413 beyond
    max_response: int = 1 << 20  # bytes of a response: one that is longer is kept without its body
    when_unavailable: Literal["refuse", "pass"] = "refuse"  # 503 while the store is down, or run without protection

    def __post_init__(self) -> None:
        _check_names("methods", self.methods)
        _check_names("forgets", self.forgets, may_be_none=True)
        if self.key is not None and not callable(self.key):
            _check_names("key", self.key)
        if self.verifier is None and getattr(self.key, "needs_verifier", False):
            raise InvalidInput("key=from_webhook needs a verifier")
        if self.verifier is not None and not callable(getattr(self.verifier, "verify", None)):
            raise InvalidInput("give a Verifier, made with the secret", field="verifier")
        for name in ("scope", "url", "keeps"):
            if not callable(getattr(self, name) or is_final):
                raise InvalidInput("a function", field=name)
        _check_paths(self.only)
        for name in ("lease", "ttl"):
            seconds = getattr(self, name)
            if not isinstance(seconds, int | float) or not 0 < seconds <= _CENTURY:
                raise InvalidInput("a number of seconds, more than 0 and up to a hundred years", field=name)
        for name in ("max_body", "max_response"):
            size = getattr(self, name)
            if not isinstance(size, int) or size < 0:
                raise InvalidInput("a number of bytes, 0 or more", field=name)
        if self.when_unavailable not in ("refuse", "pass"):
            raise InvalidInput("refuse or pass", field="when_unavailable")


def _check_paths(paths: object) -> None:
    """Each must guard something. A generator would be empty when the first request comes, and guard nothing."""
    if isinstance(paths, str | bytes | Mapping) or not isinstance(paths, Collection):
        raise InvalidInput("a list of paths, each with a slash in front", field="only")
    for path in paths:
        if not plain_path(path):
            raise InvalidInput(
                f"{path!r:.80} is not a plain path. Write the part that all its paths begin with, such as /hooks: "
                "no pattern, no white space, no dot segments, no query",
                field="only",
            )


def _check_names(field: str, names: object, *, may_be_none: bool = False) -> None:
    """A text is a sequence too, of letters: `methods="POST"` must not mean the methods P, O, S and T."""
    if isinstance(names, str | bytes) or not isinstance(names, Sequence) or not (names or may_be_none):
        raise InvalidInput("a list of names", field=field)
    if not all(isinstance(name, str) and _is_name(name) for name in names):
        raise InvalidInput("a name is letters, digits and dashes", field=field)
