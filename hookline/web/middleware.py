"""Middleware of every request to the API and the pages: request id, normalized path, common headers, one log line."""

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
from hookline.store.patience import CALLER_SECONDS, waiting_at_most
from hookline.web.errors import answer, problem

PREFIX = "/api/"
RECORD = "hookline.visit"
MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024

_SAFE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")

_Header = tuple[bytes, bytes]

_COMMON_HEADERS: tuple[_Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_API_HEADERS: tuple[_Header, ...] = (
    *_COMMON_HEADERS,
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
# A page that needs another content security policy sets the header itself.
_PAGE_HEADERS: tuple[_Header, ...] = (
    *_COMMON_HEADERS,
    (b"content-security-policy", b"object-src 'none'; base-uri 'none'; frame-ancestors 'none'"),
)
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, svix-req-id, svix-retry-count, traceparent, "
    "tracestate, x-request-id",
    "access-control-max-age": "600",
}

# HTTP methods that are labels of a metric. All others count as `other`, because callers can send any text.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

log = structlog.get_logger(__name__)


class MiddlewareSettings(Struct, frozen=True, kw_only=True):
    access_log: str = "debug"  # log level of the line that is written for each request, or `off`
    database_timeout: float = CALLER_SECONDS  # seconds that a request waits for the database
    portal_origins: tuple[str, ...] = ()  # origins whose scripts may call the API with an application's token


class RequestRecord(Struct):
    """Facts about one request that are collected while it is handled."""

    request_id: str
    caller: Caller | None = None
    accept: Accept | None = None  # the trace span, if the request publishes messages
    route: str | None = None  # the path template; never the path itself, which may contain secrets
    status: int = 0  # 0 until the response starts


def record_of(scope: Scope) -> RequestRecord:
    record: RequestRecord = scope[RECORD]
    return record


class RequestMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        settings: MiddlewareSettings,
        routes: Mapping[Any, str],
        monotonic: Callable[[], float],
        tally: Tally,
    ) -> None:
        """`routes` maps each handler to its path template."""
        self._app = app
        self._routes = routes
        self._origins = frozenset(origin.encode() for origin in settings.portal_origins)
        self._write_log = _log_method(settings.access_log)
        self._database_timeout = settings.database_timeout
        self._monotonic = monotonic
        self._tally = tally

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._monotonic()
        headers: Iterable[_Header] = scope["headers"]
        record = scope[RECORD] = RequestRecord(_request_id(headers))
        scope["path"] = _without_trailing_slash(scope["path"])
        origin = self._portal_origin(scope["path"], headers)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message = {**message, "headers": self._with_common_headers(scope, message["headers"], origin)}
            await send(message)

        bound = structlog.contextvars.bind_contextvars(request_id=record.request_id)
        try:
            await self._answer(scope, receive, send_with_headers, origin)
        except Exception as error:
            await self._crash(scope, receive, send_with_headers, error)
        finally:
            seconds = self._monotonic() - began
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._tally.answered(method, self._route(scope), record.status, seconds)
            if record.accept is not None:
                record.accept.answered(self._route(scope), record.status)
            if self._write_log is not None:
                self._log(scope, seconds)
            structlog.contextvars.reset_contextvars(**bound)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, origin: bytes | None) -> None:
        refusal = _too_many_headers(scope["headers"])
        if refusal is not None:
            await refusal(scope, receive, send)
        elif origin is not None and _is_preflight(scope):
            await Response(None, 204, _PREFLIGHT)(scope, receive, send)
        else:
            with waiting_at_most(self._database_timeout):
                await self._app(scope, receive, send)

    async def _crash(self, scope: Scope, receive: Receive, send: Send, error: Exception) -> None:
        log.error("request_failed", method=scope["method"], route=self._route(scope), exc_info=error)
        if not record_of(scope).status:
            await answer(error)(scope, receive, send)

    # ── headers of every response ──

    def _with_common_headers(self, scope: Scope, headers: Iterable[_Header], origin: bytes | None) -> list[_Header]:
        found = list(headers)
        has = {name for name, _ in found}
        is_api = scope["path"].startswith(PREFIX)
        found += [header for header in (_API_HEADERS if is_api else _PAGE_HEADERS) if header[0] not in has]
        found.append((b"x-request-id", record_of(scope).request_id.encode()))
        if is_api and self._origins:
            found.append((b"vary", b"origin"))
            if origin is not None and not _is_organization_wide(record_of(scope).caller):
                found.append((b"access-control-allow-origin", origin))
                found.append((b"access-control-expose-headers", b"x-request-id, retry-after"))
        return found

    def _portal_origin(self, path: str, headers: Iterable[_Header]) -> bytes | None:
        """Return the Origin header if it is a configured portal origin."""
        if not self._origins or not path.startswith(PREFIX):
            return None
        origin = header(headers, b"origin")
        return origin if origin in self._origins else None

    # ── the log line of a request ──

    def _log(self, scope: Scope, seconds: float) -> None:
        """Write the log line. It never has the path, query, headers or body: any of them may contain a secret."""
        record = record_of(scope)
        caller = record.caller
        assert self._write_log is not None
        self._write_log(
            "request",
            method=scope["method"],
            route=self._route(scope),
            status=record.status,
            ms=round(seconds * 1000, 2),
            organization=None if caller is None else caller.org_id,
            application=None if caller is None or caller.app is None else caller.app.id,
            key=None if caller is None else caller.key_id,
        )

    def _route(self, scope: Scope) -> str:
        return record_of(scope).route or self._routes.get(scope.get("endpoint")) or "unknown"


def _log_method(level: str) -> Callable[..., None] | None:
    """Return the log method of this level. If the level is disabled, return None, so that requests skip the log."""
    if level == "off" or not log.bind().is_enabled_for(getattr(logging, level.upper())):
        return None
    method: Callable[..., None] = getattr(log, level)
    return method


def _request_id(headers: Iterable[_Header]) -> str:
    """Return the caller's request id if it is safe to log, or else a new one."""
    given = header(headers, b"x-request-id")
    if given is not None and _SAFE_ID.fullmatch(given):
        return given.decode()
    return f"req_{quick_chance.getrandbits(96):024x}"


def _without_trailing_slash(path: str) -> str:
    """Treat `/app/` as `/app` without a redirect, because older clients send the slash."""
    return path.rstrip("/") or "/" if path.endswith("/") else path


def header(headers: Iterable[_Header], wanted: bytes) -> bytes | None:
    for name, value in headers:
        if name == wanted:
            return value
    return None


def _too_many_headers(headers: list[_Header]) -> Response | None:
    if len(headers) > MAX_HEADERS:
        return problem(431, f"there are more than {MAX_HEADERS} headers")
    if sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
        return problem(431, f"the headers are larger than {MAX_HEADER_BYTES} bytes")
    return None


def _is_preflight(scope: Scope) -> bool:
    return scope["method"] == "OPTIONS" and header(scope["headers"], b"access-control-request-method") is not None


def _is_organization_wide(caller: Caller | None) -> bool:
    """Whether the caller's token is for a whole organization.

    Such a token must not be used in a browser, so the response gets no CORS headers.
    """
    return caller is not None and caller.app is None
