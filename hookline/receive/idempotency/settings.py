"""The settings of the idempotency middleware, with their checks."""

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

KEY_HEADERS = ("Idempotency-Key", "webhook-id", "svix-id", "X-GitHub-Delivery", "X-Shopify-Webhook-Id")

# After one of these statuses, a client may send the same key again, and the handler must run then. A router answers
# 404 and 405 without running a handler.
_TEMPORARY = frozenset({401, 403, 404, 405, 408, 409, 425, 429})

# Seconds. A longer `ttl` may be too large for the database, and saving would fail only after the handler has run.
_CENTURY = 100 * 365.25 * 86400

_is_name = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch


class IncomingRequest(Struct, frozen=True):
    """The request that a `key`, `scope` or `url` function gets."""

    method: str
    path: str  # decoded, without the query
    query: bytes
    headers: Headers
    url: str  # as this server sees it; behind a proxy, the sender's URL may have another host and scheme
    native: Any  # the ASGI scope, the WSGI environ, or Django's request
    body: bytes = b""
    webhook: Webhook | None = None  # the verified webhook; None without a verifier
    below: str | None = None  # the path that the router uses: without the server's root path; None: the same as `path`


def is_final(status: int) -> bool:
    """Return False for server errors and for statuses after which a client retries. This is the default of `keeps`."""
    return status < 500 and status not in _TEMPORARY


def succeeded(status: int) -> bool:
    """Return True for 2xx only. With `keeps=succeeded`, a failed webhook can be replayed after the handler is
    fixed."""
    return 200 <= status < 300


class IdempotencySettings(Struct, frozen=True, kw_only=True):
    # The source of the key: names of headers, of which the first that is present is used, or a function, which returns
    # None if the request has no key. The default is the id of the verified webhook, or KEY_HEADERS without a verifier.
    key: Sequence[str] | Callable[[IncomingRequest], str | bytes | None] | None = None
    # The owner of the key, such as a tenant id. The same key of another owner is another key.
    scope: Callable[[IncomingRequest], str | bytes | Sequence[str | bytes]] | None = None
    # True: a key belongs to one path, because senders use one id for an event at all endpoints of a receiver.
    # False: a key that was used at another path is refused with 422.
    per_path: bool = True
    required: bool = False  # True: a request without a key gets 400. False: it passes through
    # The middleware looks for a key only in requests with these methods, and in verified webhooks with any method.
    methods: Sequence[str] = ("POST", "PUT", "PATCH", "DELETE")
    # The middleware covers only these paths and the paths below them, in every spelling that a router may accept. An
    # empty sequence covers every path.
    only: Sequence[str] = ()
    # A request that the verifier refuses gets 401. If `only` is empty, a GET, HEAD, OPTIONS or TRACE request without a
    # body is not verified, unless `methods` names its method.
    verifier: Verifier | None = None
    # Returns the URL that the sender signed (Twilio). It is needed behind a proxy.
    url: Callable[[IncomingRequest], str] | None = None
    # Returns whether a response with this status is saved for later copies of the request. An error with `Retry-After`
    # and the redirects 307 and 308 are never saved.
    keeps: Callable[[int], bool] = is_final
    forgets: Sequence[str] = ("set-cookie",)  # response headers that are not saved
    # Seconds for which a process holds the key of a request that it handles. It renews the lease after each third of
    # this time. If the process dies, a copy of the request is handled only after the lease has ended.
    lease: float = 30.0
    ttl: float = 96 * 3600.0  # seconds for which a response is kept: longer than any sender retries
    max_body: int = 1 << 20  # maximum body bytes of a request with a key or a signature; a longer body gets 413
    max_response: int = 1 << 20  # maximum bytes of a saved response body; a longer body is not saved
    # While the store is down, `refuse` answers 503, and `pass` runs the handler without protection.
    when_unavailable: Literal["refuse", "pass"] = "refuse"

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
                raise InvalidInput("give a function", field=name)
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
    """Check that each path can match a request. Refuse a generator: it would be empty after the first request."""
    if isinstance(paths, str | bytes | Mapping) or not isinstance(paths, Collection):
        raise InvalidInput("give a list of paths that begin with a slash", field="only")
    for path in paths:
        if not plain_path(path):
            raise InvalidInput(
                f"{path!r:.80} is not a plain path. Give a prefix of the paths, such as /hooks, "
                "without patterns, white space, dot segments and query",
                field="only",
            )


def _check_names(field: str, names: object, *, may_be_none: bool = False) -> None:
    """Refuse a str: Python would take `methods="POST"` as the methods P, O, S and T."""
    if isinstance(names, str | bytes) or not isinstance(names, Sequence) or not (names or may_be_none):
        raise InvalidInput("give a list of names", field=field)
    if not all(isinstance(name, str) and _is_name(name) for name in names):
        raise InvalidInput("a name has letters, digits and dashes only", field=field)
