"""The idempotency middleware for ASGI applications on asyncio, such as Starlette, FastAPI and Litestar.

    app.add_middleware(IdempotencyMiddleware, store=AsyncPostgresKeys(pool), settings=IdempotencySettings(verifier=verifier))

A verified webhook is `request.state.hookline_webhook`. A handler that has started runs to its end even if the client
goes away, and its response is saved. A response is saved before its last byte is sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

from hookline.receive.idempotency import problems
from hookline.receive.idempotency.core import CLAIMS, NOTHING, Claim, Plan, examine, is_new, needs_body, plan
from hookline.receive.idempotency.hold import AsyncHolder, Hold
from hookline.receive.idempotency.keys import AsyncKeyStore, StoredResponse
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.recording import Recording
from hookline.receive.idempotency.settings import IdempotencySettings, IncomingRequest
from hookline.signing.headers import Headers

__all__ = ["IdempotencyMiddleware"]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

WEBHOOK = "hookline_webhook"

_slashes = re.compile("/{2,}")

# The middleware hides these ASGI extensions, because it cannot record a response that is sent with them.
_HIDDEN = frozenset({"http.response.pathsend", "http.response.zerocopysend", "http.response.trailers"})


class IdempotencyMiddleware:
    def __init__(self, app: Application, store: AsyncKeyStore, settings: IdempotencySettings | None = None) -> None:
        self.app = app
        self._settings = settings or IdempotencySettings()
        self.holder = AsyncHolder(store, self._settings)
        # A Litestar mount at `/hooks` also accepts `/hookspay`, and a middleware around Litestar does not see mounts.
        # So around Litestar, `/hookspay` counts as below `/hooks`.
        self._names_end = not (type(app).__name__ == "Litestar" and type(app).__module__.startswith("litestar."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.call(self.app, scope, receive, send)

    async def call(self, app: Application, scope: Scope, receive: Receive, send: Send) -> None:
        chosen = self._plan(scope)
        if not chosen:
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "only signed requests are accepted here"})
        else:
            try:
                await self._admit(app, chosen, scope, receive, send)
            except Answered as answered:
                await send_response(send, answered.response)

    def _plan(self, scope: Scope) -> Plan:
        if scope["type"] not in ("http", "websocket"):
            return NOTHING
        paths = _paths(scope) if self._settings.only else ()
        method = scope.get("method", "GET").upper()
        chosen = plan(self._settings, method, *paths, ends=self._names_end)
        if scope["type"] == "websocket" and (chosen.spares_empty or not chosen.verifies):
            return NOTHING  # a WebSocket is treated like a GET without a body
        return chosen

    async def _admit(self, app: Application, chosen: Plan, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope["headers"])
        if not needs_body(self._settings, chosen, headers):
            await app(scope, receive, send)
            return
        body = await read_body(scope, receive, self._settings.max_body)
        if body is None:
            return  # the client went away before the handler started
        request, claim = examine(self._settings, chosen, incoming(scope, headers, body))
        _drop_odd_root(scope)
        if request.webhook is not None:
            scope.setdefault("state", {})[WEBHOOK] = request.webhook
        if claim is None or not is_new(claim, scope.setdefault(CLAIMS, set())):
            await app(scope, ReadBody(body, receive), send)
        else:
            await self._once(app, claim, scope, ReadBody(body, receive), send)

    async def _once(self, app: Application, claim: Claim, scope: Scope, receive: ReadBody, send: Send) -> None:
        exchange = _Exchange(Recording(self._settings), receive, send)

        async def work() -> None:
            exchange.hold = await self.holder.take(claim)
            if exchange.hold is None:
                await app(scope, receive, send)
                return
            if extensions := scope.get("extensions"):
                scope["extensions"] = {name: extensions[name] for name in extensions if name not in _HIDDEN}
            try:
                await app(scope, exchange.receive, exchange.send)
            finally:
                await exchange.close()

        await self.holder.outlive(work, exchange.leave)


# ── the request ───────────────────────────────────────────────────────────────────────────────────────────────────


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes | None:
    """Return the body, or None if the client is gone. If Litestar has already read the body, it is in the scope."""
    body = getattr((scope.get("state") or {}).get("_ls_connection_state"), "body", None)
    if not isinstance(body, bytes):
        return await _read(receive, limit)
    if len(body) > limit:
        raise Answered(problems.body_too_large(limit))
    return body


async def _read(receive: Receive, limit: int) -> bytes | None:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > limit:
            raise Answered(problems.body_too_large(limit))
        if not message.get("more_body", False):
            return bytes(body)


def incoming(scope: Scope, headers: Headers, body: bytes) -> IncomingRequest:
    query = scope.get("query_string", b"")
    method, path, url = scope["method"].upper(), _path(scope), _url(scope, headers)
    return IncomingRequest(method, path, query, headers, url, scope, body, below=_routed(scope))


def _paths(scope: Scope) -> list[str]:
    """Return all paths that a router may use for this request."""
    paths = [scope["path"], _whole(scope), _raw(scope)]
    return [*paths, *(_below(scope, path) for path in paths), _path(scope)]


def _path(scope: Scope) -> str:
    """Return the path with the server's root path in front. Some servers already include the root path in `path`."""
    root: str = scope.get("root_path", "").rstrip("/")
    below = _below(scope, _whole(scope))
    return f"{root}/{below.lstrip('/')}" if root else below


def _below(scope: Scope, path: str) -> str:
    root: str = scope.get("root_path", "")
    return path.split(root, 1)[-1] if root else path  # like Litestar: the root may be anywhere in the path


def _whole(scope: Scope) -> str:
    """Return the path as it was before routing. Below a mount, Litestar's `path` has only the part after the mount."""
    below = scope["path"].strip("/")
    raw = _slashes.sub("/", _raw(scope)).rstrip("/")
    mount = raw[: len(raw) - len(below)].rstrip("/")
    return f"{mount}/{below}" if mount and raw.endswith(below) else scope["path"]


def _routed(scope: Scope) -> str:
    """Return the path that the router uses: without the server's root, but with the mounts of the application
    itself."""
    root: str = scope.get("root_path", "")
    # Starlette adds each mount to `root_path`. It keeps the server's root in `app_root_path`.
    server_root: str = scope.get("app_root_path", root)
    if _is_litestar_mount(scope):
        return _raw(scope).split(server_root, 1)[-1] if server_root else _raw(scope)
    below = scope["path"] if "route_handler" in scope else _without(root, scope["path"])
    return _without(server_root, root) + below


def _is_litestar_mount(scope: Scope) -> bool:
    return bool(getattr(scope.get("route_handler"), "is_mount", False))


def _without(root: str, path: str) -> str:
    rest = path.removeprefix(root)
    return rest if rest[:1] in ("", "/") else path


def _drop_odd_root(scope: Scope) -> None:
    """Clear `root_path` if the path contains it, but does not begin with it. In a Litestar mount, also clear it if the
    path begins with it.

    Litestar removes the root path wherever it is in the path, Starlette only at the beginning. A correct server sets no
    root path in the middle of the path, but with some servers a client can set it in a header. Without a root path,
    every router uses the path from which the idempotency key was made.
    """
    root, path, is_mount = scope.get("root_path", ""), scope["path"], _is_litestar_mount(scope)
    if "route_handler" in scope and not is_mount:
        return  # Litestar has already chosen the handler of this request
    if root in path and (is_mount or _without(root, path) == path):
        scope["root_path"] = ""


def _raw(scope: Scope) -> str:
    return unquote((scope.get("raw_path") or b"").decode("latin-1"))


def _url(scope: Scope, headers: Headers) -> str:
    host = headers.get("host") or ":".join(str(part) for part in scope.get("server") or ())
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{scope.get('scheme', 'http')}://{host}{path}" + (f"?{query}" if query else "")


class ReadBody:
    """A `receive` function that returns a body that was read before. Later messages come from the server."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        return self.first() or await self._receive()

    def first(self) -> Message | None:
        body, self._body = self._body, None
        return None if body is None else {"type": "http.request", "body": body, "more_body": False}


# ── the response ──────────────────────────────────────────────────────────────────────────────────────────────────


class _Exchange:
    """Passes messages between client and application, and records the response, while the request holds a key."""

    hold: Hold | None = None

    def __init__(self, recording: Recording, receive: ReadBody, send: Send) -> None:
        self._recording = recording
        self._receive = receive
        self._send = send
        self._start: Message | None = None  # the start of the response; sent with the first part of the body
        self._is_gone = False
        self._is_over = asyncio.Event()

    async def receive(self) -> Message:
        """Tell the application of a disconnect only after its response is saved."""
        first = self._receive.first()
        if first is not None:
            return first
        await self._is_over.wait()
        return {"type": "http.disconnect"} if self._is_gone else await self._receive()

    async def send(self, message: Message) -> None:
        match message["type"]:
            case "http.response.start":
                self._recording.start(message["status"], message.get("headers", ()))
                self._start = message
                if self._recording.is_known:
                    await self._settle()
                    await self._send_start()
            case "http.response.body":
                self._recording.feed(message.get("body", b""))
                is_last = self._recording.is_complete or not message.get("more_body", False)
                if is_last or self._recording.is_known:
                    await self._settle()
                await self._send_start()
                await self._forward(message)
            case _:
                await self._forward(message)

    def leave(self) -> bool:
        """Note that the server cancelled the request.

        Return True if the application may be cancelled too, because nothing of its response is left to save.
        """
        self._is_gone = True
        return self._is_over.is_set()

    async def close(self) -> None:
        """Free the key if the response is incomplete."""
        assert self.hold is not None
        self._is_over.set()
        await self.hold.release()

    async def _settle(self) -> None:
        assert self.hold is not None
        await self.hold.settle(self._recording)
        self._is_over.set()

    async def _send_start(self) -> None:
        start, self._start = self._start, None
        if start is not None:
            await self._forward(start)

    async def _forward(self, message: Message) -> None:
        """Send a message.

        If the client is gone, ignore the error, so that the application completes its response and the response can be
        saved. Raise the error only if nothing is left to save and the application would send more of the body. The
        error stops the application.
        """
        try:
            if self._is_gone:
                raise ConnectionResetError("the client is gone")
            await self._send(message)
        except OSError:
            self._is_gone = True
            if self._is_over.is_set() and message.get("more_body", False):
                raise


async def send_response(send: Send, response: StoredResponse) -> None:
    await send({"type": "http.response.start", "status": response.status, "headers": list(response.headers)})
    await send({"type": "http.response.body", "body": response.body})
