"""The handlers, a module per resource. Each has `ROUTES`: method, path below `/api/v1`, handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from hookline.api.call import Call
from hookline.api.routes import applications, endpoints, messages

Handler = Callable[[Call], Awaitable[Response]]

ROUTES: list[tuple[str, str, Handler]] = [*applications.ROUTES, *endpoints.ROUTES, *messages.ROUTES]
