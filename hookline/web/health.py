"""Whether the process lives, and whether it is of use: `/health/live` and `/health/ready`, for whoever restarts and routes.

They are answered from the first moment on, before migrations, and until the process ends.
"""

from __future__ import annotations

import asyncio

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hookline.clock import monotonic
from hookline.errors import StoreUnavailable
from hookline.store.protocols import SCHEMA_VERSION, Store

LIVE, READY = PATHS = "/health/live", "/health/ready"
FRESH = 1.0  # seconds that one look at the database is good for: strangers may ask as often as they like
PATIENCE = 5.0  # seconds for one look

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Health:
    """Of one process. Live is whoever can answer; ready is whoever has opened its store and is not asked to stop."""

    def __init__(self, leaving: asyncio.Event) -> None:
        self._leaving = leaving
        self._store: Store | None = None
        self._look: asyncio.Task[str | None] | None = None
        self._looked_at = 0.0

    def opened(self, store: Store) -> None:
        """Its migrations are done."""
        self._store = store

    async def unready(self) -> list[str]:
        """Why; empty: it is ready."""
        reasons = ["the process is shutting down"] if self._leaving.is_set() else []
        if self._store is None:
            return [*reasons, "the process is starting: the database is being opened and migrated"]
        trouble = await self._database(self._store)
        return reasons if trouble is None else [*reasons, trouble]

    async def _database(self, store: Store) -> str | None:
        """One look for all who ask at the same time, and a moment after it."""
        if self._look is None or (self._look.done() and monotonic() - self._looked_at > FRESH):
            self._looked_at = monotonic()
            self._look = asyncio.create_task(_trouble(store))
        return await asyncio.shield(self._look)


async def _trouble(store: Store) -> str | None:
    """Without what the database says itself: that is for the log, this is for everybody."""
    try:
        async with asyncio.timeout(PATIENCE):
            version = await store.version()
    except TimeoutError:
        return f"the database does not answer within {PATIENCE:.0f} s"
    except StoreUnavailable:
        return "the database is away"
    if version < SCHEMA_VERSION:
        return f"the database is at version {version}, this release needs {SCHEMA_VERSION}: run `hookline migrate`"
    return None


class StartupGate:
    """The outermost application: it answers for the health at once, and lets everybody else wait until there is an app."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._app: ASGIApp | None = None
        self._open = asyncio.Event()

    def open(self, app: ASGIApp) -> None:
        self._app = app
        self._open.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _ANSWERS.get(scope["path"].rstrip("/")) if scope["type"] == "http" else None
        if answer is not None:
            await (await answer(self._health, scope["method"]))(scope, receive, send)
            return
        await self._open.wait()
        assert self._app is not None
        await self._app(scope, receive, send)


async def _live(_health: Health, method: str) -> Response:
    return _reading(method) or _said(200, {"status": "live"})


async def _ready(health: Health, method: str) -> Response:
    refusal = _reading(method)
    if refusal is not None:
        return refusal
    reasons = await health.unready()
    return _said(503, {"status": "not ready", "reasons": reasons}) if reasons else _said(200, {"status": "ready"})


def _reading(method: str) -> Response | None:
    return None if method in ("GET", "HEAD") else Response(None, 405, {**_HEADERS, "allow": "GET, HEAD"})


def _said(status: int, body: dict[str, object]) -> Response:
    return Response(msgspec.json.encode(body), status, _HEADERS, media_type="application/json")


_ANSWERS = {LIVE: _live, READY: _ready}
