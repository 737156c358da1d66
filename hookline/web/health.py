"""Liveness and readiness: `/health/live` and `/health/ready`, for supervisors and load balancers.

The process answers both paths as soon as it starts, even before migrations have run, and until it ends.
"""

from __future__ import annotations

import asyncio

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hookline.clock import monotonic
from hookline.errors import StoreUnavailable
from hookline.store import SCHEMA_VERSION, Store
from hookline.store.patience import CALLER_SECONDS, waiting_at_most

LIVE, READY = PATHS = "/health/live", "/health/ready"
FRESH = 1.0  # seconds for which the result of a database check is reused, because anybody may call READY often
TIMEOUT = CALLER_SECONDS  # seconds for one database check

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Health:
    """The health of this process.

    It is live if it answers. It is ready if its store is open, its database works and accepts writes, and it is not
    shutting down.
    """

    def __init__(self, leaving: asyncio.Event) -> None:
        self._leaving = leaving
        self._store: Store | None = None
        self._check: asyncio.Task[str | None] | None = None
        self._checked_at = 0.0

    def opened(self, store: Store) -> None:
        """Note that the store is open and migrated."""
        self._store = store

    async def unready(self) -> list[str]:
        """Return the reasons why the process is not ready. The list is empty if it is ready."""
        reasons = ["the process is shutting down"] if self._leaving.is_set() else []
        if self._store is None:
            return [*reasons, "the process is starting: the database is not open and migrated yet"]
        problem = await self._database_problem(self._store)
        return reasons if problem is None else [*reasons, problem]

    async def _database_problem(self, store: Store) -> str | None:
        """Check the database. Requests at the same time, or within `FRESH` seconds, share one check."""
        if self._check is None or (self._check.done() and monotonic() - self._checked_at > FRESH):
            self._checked_at = monotonic()
            self._check = asyncio.create_task(_check_database(store))
        return await asyncio.shield(self._check)


async def _check_database(store: Store) -> str | None:
    """Return the problem, or None.

    The text of the database error is left out, because anybody may read the response.
    """
    try:
        with waiting_at_most(TIMEOUT):
            version = await store.version()
    except StoreUnavailable:
        return "the database is not available"
    if version < SCHEMA_VERSION:
        return f"the database is at version {version}, this release needs {SCHEMA_VERSION}: run `hookline migrate`"
    return None if store.writable else "the database refuses writes"


class StartupApp:
    """The outermost ASGI application.

    It answers health checks at once. Other requests wait until the real application is set.
    """

    def __init__(self, health: Health) -> None:
        self._health = health
        self._app: ASGIApp | None = None
        self._open = asyncio.Event()

    def open(self, app: ASGIApp) -> None:
        self._app = app
        self._open.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/") if scope["type"] == "http" else None
        if path in PATHS:
            response = await self._health_response(path, scope["method"])
            await response(scope, receive, send)
            return
        await self._open.wait()
        assert self._app is not None
        await self._app(scope, receive, send)

    async def _health_response(self, path: str, method: str) -> Response:
        if method not in ("GET", "HEAD"):
            return Response(None, 405, {**_HEADERS, "allow": "GET, HEAD"})
        if path == LIVE:
            return JSONResponse({"status": "live"}, 200, _HEADERS)
        reasons = await self._health.unready()
        if reasons:
            return JSONResponse({"status": "not ready", "reasons": reasons}, 503, _HEADERS)
        return JSONResponse({"status": "ready"}, 200, _HEADERS)
