"""Around every request, of the API and of the pages: its id, its path's one form, what every answer carries, one log line."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog
from msgspec import Struct
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hookline.clock import quick_chance
from hookline.model.callers import Caller
from hookline.observe.tally import Tally
from hookline.observe.traces import Accept
from hookline.web.errors import answer, problem

PREFIX = "/api/"
RECORD = "hookline.visit"
MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024

_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")

_Header = tuple[bytes, bytes]

_EVERYWHERE: tuple[_Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_OF_API: tuple[_Header, ...] = (
    *_EVERYWHERE,
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
# A page that needs less, or more, says so itself.
_OF_PAGES: tuple[_Header, ...] = (
    *_EVERYWHERE,
    (b"content-security-policy", b"object-src 'none'; base-uri 'none'; frame-ancestors 'none'"),
)
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, svix-req-id, svix-retry-count, traceparent, "
    "tracestate, x-request-id",
    "access-control-max-age": "600",
}

_METHODS = {
    method: method for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
}  # callers may invent some

log = structlog.get_logger(__name__)


class MiddlewareSettings(Struct, frozen=True, kw_only=True):
    access_log: str = "debug"  # the level of a request's line, or `off`
    portal_origins: tuple[str, ...] = ()  # whose scripts may call the API with an application's token


class RequestRecord:
    """What is known of one request by the time it is answered."""

    __slots__ = ("accept", "caller", "request_id", "route", "status")

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.caller: Caller | None = None
        self.accept: Accept | None = None  # it brings messages, and is part of a trace
        self.route: str | None = None  # its template; never the path itself, which may hold anything
        self.status = 0  # 0: nothing was sent yet


def record_of(scope: Scope) -> RequestRecord:
    visit: RequestRecord = scope[RECORD]
    return visit


class RequestMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        settings: MiddlewareSettings,
        routes: Mapping[Any, str],
        monotonic: Callable[[], float],
        tally: Tally,
    ) -> None:
        """`routes` has the template of each endpoint that the router may find."""
        self._app = app
        self._routes = routes
        self._origins = frozenset(origin.encode() for origin in settings.portal_origins)
        self._tell = _teller(settings.access_log)
        self._monotonic = monotonic
        self._tally = tally

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._monotonic()
        headers: Iterable[_Header] = scope["headers"]
        visit = scope[RECORD] = RequestRecord(_request_id(headers))
        scope["path"] = _one_form(scope["path"])
        origin = self._portal(scope["path"], headers)

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                message = {**message, "headers": self._dress(scope, message["headers"], origin)}
            await send(message)

        bound = structlog.contextvars.bind_contextvars(request_id=visit.request_id)
        try:
            await self._answer(scope, receive, dressed, origin)
        except Exception as error:
            await self._crash(scope, receive, dressed, error)
        finally:
            seconds = self._monotonic() - began
            self._tally.answered(_METHODS.get(scope["method"], "other"), self._route(scope), visit.status, seconds)
            if visit.accept is not None:
                visit.accept.answered(self._route(scope), visit.status)
            if self._tell is not None:
                self._log(scope, seconds)
            structlog.contextvars.reset_contextvars(**bound)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, origin: bytes | None) -> None:
        refusal = _too_many(scope["headers"])
        if refusal is not None:
            await refusal(scope, receive, send)
        elif origin is not None and _is_preflight(scope):
            await Response(None, 204, _PREFLIGHT)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _crash(self, scope: Scope, receive: Receive, send: Send, error: Exception) -> None:
        log.error("request_failed", method=scope["method"], route=self._route(scope), exc_info=error)
        if not record_of(scope).status:
            await answer(error)(scope, receive, send)

    # ── what every answer carries ──

    def _dress(self, scope: Scope, headers: Iterable[_Header], origin: bytes | None) -> list[_Header]:
        dressed = list(headers)
        has = {name for name, _ in dressed}
        of_api = scope["path"].startswith(PREFIX)
        dressed += [header for header in (_OF_API if of_api else _OF_PAGES) if header[0] not in has]
        dressed.append((b"x-request-id", record_of(scope).request_id.encode()))
        if of_api and self._origins:
            dressed.append((b"vary", b"origin"))
            if origin is not None and not _is_wide(record_of(scope).caller):
                dressed.append((b"access-control-allow-origin", origin))
                dressed.append((b"access-control-expose-headers", b"x-request-id, retry-after"))
        return dressed

    def _portal(self, path: str, headers: Iterable[_Header]) -> bytes | None:
        """The origin of the page whose script is calling, if it is the portal's."""
        if not self._origins or not path.startswith(PREFIX):
            return None
        origin = _header(headers, b"origin")
        return origin if origin in self._origins else None

    # ── the log ──

    def _log(self, scope: Scope, seconds: float) -> None:
        """Never a path, a query, a header or a body: any of them may hold a secret."""
        visit = record_of(scope)
        caller = visit.caller
        assert self._tell is not None
        self._tell(
            "request",
            method=scope["method"],
            route=self._route(scope),
            status=visit.status,
            ms=round(seconds * 1000, 2),
            organization=None if caller is None else caller.org_id,
            application=None if caller is None or caller.app is None else caller.app.id,
            key=None if caller is None else caller.key_id,
        )

    def _route(self, scope: Scope) -> str:
        return record_of(scope).route or self._routes.get(scope.get("endpoint")) or "unknown"


def _teller(level: str) -> Callable[..., None] | None:
    """None where nobody would hear it: then a request does not pay for it either."""
    if level == "off" or not log.bind().is_enabled_for(getattr(logging, level.upper())):
        return None
    told: Callable[..., None] = getattr(log, level)
    return told


def _request_id(headers: Iterable[_Header]) -> str:
    """The caller's own, if it is fit to be logged and repeated."""
    given = _header(headers, b"x-request-id")
    if given is not None and _SANE_ID.fullmatch(given):
        return given.decode()
    return f"req_{quick_chance.getrandbits(96):024x}"


def _one_form(path: str) -> str:
    """`/app/` is `/app`, without a redirect: older clients call it so."""
    return path.rstrip("/") or "/" if path.endswith("/") else path


def _header(headers: Iterable[_Header], wanted: bytes) -> bytes | None:
    for name, value in headers:
        if name == wanted:
            return value
    return None


def _too_many(headers: list[_Header]) -> Response | None:
    if len(headers) > MAX_HEADERS:
        return problem(431, f"there are more than {MAX_HEADERS} headers")
    if sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
        return problem(431, f"the headers are larger than {MAX_HEADER_BYTES} bytes")
    return None


def _is_preflight(scope: Scope) -> bool:
    return scope["method"] == "OPTIONS" and _header(scope["headers"], b"access-control-request-method") is not None


def _is_wide(caller: Caller | None) -> bool:
    """An organization's token has no business in a browser: no script gets to read what it is answered."""
    return caller is not None and caller.app is None
