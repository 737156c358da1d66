"""Build the ASGI application of the API: routes, authentication and errors.

`hookline.server` adds the routes of the dashboard to this application.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hookline.api import docs, openapi
from hookline.api.call import Call
from hookline.api.operation import PREFIX, Operation
from hookline.api.routes import OPERATIONS
from hookline.errors import BlockedAddress
from hookline.rules import redaction
from hookline.web.authorize import Needs, admit
from hookline.web.context import WebContext
from hookline.web.errors import on_crash, on_error, on_http_exception
from hookline.web.idempotency import HEADER, key_of, request_of
from hookline.web.middleware import RequestMiddleware, record_of

MAX_KEYED = 1024 * 1024  # maximum bytes of a POST body with an idempotency key; the handler may have a lower limit

PUBLISH = f"{PREFIX}/app/{{app_id}}/msg"
_PUBLISH_PATH = re.compile(rf"{PREFIX}/app/([^/]+)/msg")

_Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(services: WebContext, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """Return the ASGI application. `pages` are routes outside the API, such as the dashboard's."""
    by_path: dict[str, dict[str, Operation]] = defaultdict(dict)
    for operation in OPERATIONS:
        for path in (operation.path, *operation.old_names):
            by_path[path][operation.method] = operation
    routes: list[BaseRoute] = [
        Route(PREFIX + path, _endpoint(operations, services), methods=list(operations))
        for path, operations in sorted(by_path.items(), key=_most_specific_first)
    ]
    routes += [Route(f"{PREFIX}{path}", _health(), methods=["GET"]) for path in ("/health", "/health/ping")]
    routes += [*openapi.routes(services), *docs.routes()]
    routes += pages
    app = Starlette(routes=routes, exception_handlers={HTTPException: on_http_exception, Exception: on_crash})
    app.router.redirect_slashes = False
    templates = {route.endpoint: route.path for route in routes if isinstance(route, Route)}
    return RequestMiddleware(
        _with_fast_publish(app, routes), services.middleware, templates, services.monotonic, services.tally
    )


def _most_specific_first(found: tuple[str, dict[str, Operation]]) -> list[bool]:
    """Return a sort key that puts `/dead-letter/stats` before `/dead-letter/{id}`."""
    return [step.startswith("{") for step in found[0].split("/")]


def _endpoint(operations: dict[str, Operation], services: WebContext) -> _Endpoint:
    async def handle(request: Request) -> Response:
        try:
            operation = operations["GET" if request.method == "HEAD" else request.method]
            caller = await admit(services, operation, request.scope)
            call = Call(request, services, caller, operation)
            if operation.method != "GET":
                return await _handle(call)
            async with services.customers.permit_for(caller.app):
                return await _handle(call)
        except BlockedAddress as error:
            services.tally.refused("saved")
            words = error.words if caller.app is None else redaction.refusal(error.words)
            return await on_error(request, BlockedAddress(words, field=error.field))
        except Exception as error:
            return await on_error(request, error)

    return handle


async def _handle(call: Call) -> Response:
    """Run the handler, at most once per idempotency key.

    Operations that accept messages store the key themselves, in the transaction of the message.
    """
    call.check_query()
    operation, given = call.operation, call.request.headers.get(HEADER)
    if given is None or operation.method != "POST" or operation.needs == Needs.PUBLISH:
        return await call.handle()
    app_id = "" if call.caller.app is None else call.caller.app.id
    holder = (str(call.caller.holder),) if operation.own else ()
    key = key_of(given, call.caller.org_id, app_id, operation.method, call.request.scope["path"], *holder)
    request = request_of(call.request.scope["query_string"], await call.raw_body(MAX_KEYED))
    return await call.services.answers.once(key, request, call.handle)


def _health() -> _Endpoint:
    """Return a handler that answers 204 if the process runs. It does not test the database.

    Each path gets a function of its own, because the middleware finds the path of a request by its handler.
    """

    async def alive(_request: Request) -> Response:
        return Response(status_code=204)

    return alive


def _with_fast_publish(app: ASGIApp, routes: Sequence[BaseRoute]) -> ASGIApp:
    """Return `app` with a direct call of the publish route. All other requests go to `app`.

    This is faster than the router, which tries the pattern of each earlier route.
    """
    (endpoint,) = (route.endpoint for route in routes if isinstance(route, Route) and route.path == PUBLISH)

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        found = _PUBLISH_PATH.fullmatch(scope["path"]) if is_post else None
        if found is None:
            await app(scope, receive, send)
            return
        scope["path_params"] = {"app_id": found[1]}
        record_of(scope).route = PUBLISH
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    return dispatch
