"""Dispatch the publish route before the router, for speed: one pattern is tested instead of one for each earlier route."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hookline.api.operation import PREFIX
from hookline.web.middleware import record_of

INGEST = f"{PREFIX}/app/{{app_id}}/msg"

_INGEST = re.compile(rf"{PREFIX}/app/([^/]+)/msg")


def ahead(app: ASGIApp, routes: Sequence[BaseRoute]) -> ASGIApp:
    """Return `app` with a direct call of the publish route. All other requests go to `app`."""
    (endpoint,) = (route.endpoint for route in routes if isinstance(route, Route) and route.path == INGEST)

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        found = _INGEST.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await app(scope, receive, send)
            return
        scope["path_params"] = {"app_id": found[1]}
        record_of(scope).route = INGEST
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    return dispatch
