"""Wiring: routes, authentication, errors. Composed with the dashboard by `hookline.cli.serve`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hookline.api.call import Call
from hookline.api.errors import on_error, on_http_exception
from hookline.api.operation import Operation
from hookline.api.routes import OPERATIONS
from hookline.api.services import Services

PREFIX = "/api/v1"

_Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(services: Services, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """The ASGI application. `pages` are routes outside the API, such as the dashboard's."""
    by_path: dict[str, dict[str, Operation]] = defaultdict(dict)
    for operation in OPERATIONS:
        for path in (operation.path, *operation.old_names):
            by_path[path][operation.method] = operation
    routes: list[BaseRoute] = [
        Route(PREFIX + path, _endpoint(operations, services), methods=list(operations))
        for path, operations in by_path.items()
    ]
    routes.append(Route(f"{PREFIX}/health", _health, methods=["GET"]))
    app = Starlette(routes=[*routes, *pages], exception_handlers={HTTPException: on_http_exception})
    app.router.redirect_slashes = False
    return _Front(app)


def _endpoint(operations: dict[str, Operation], services: Services) -> _Endpoint:
    async def handle(request: Request) -> Response:
        try:
            operation = operations["GET" if request.method == "HEAD" else request.method]
            caller = await services.auth.caller(request.headers.get("authorization"))
            if operation.whole:
                services.auth.whole_organization(caller)
            return await operation.handler(Call(request, services, caller, operation))
        except Exception as error:
            return await on_error(request, error)

    return handle


async def _health(_request: Request) -> Response:
    """The process answers; whether the database does is for `/metrics` and `doctor` to say."""
    return Response(status_code=204)


class _Front:
    """Before routing: `/app/` is `/app`, without a redirect. Older clients call it so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if len(path) > 1 and path.endswith("/"):
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)
