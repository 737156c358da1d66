"""Serves the OpenAPI document. If the caller sends a token, the document includes the
event types of the organization."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hookline.api.openapi.document import describe, general
from hookline.api.operation import PREFIX
from hookline.model.actors import Scope
from hookline.services import event_types
from hookline.store import Page
from hookline.web.authorize import identify
from hookline.web.context import WebContext
from hookline.web.errors import on_error

MAX_EVENT_TYPES = 1000  # maximum number of event types in the `webhooks` section


def routes(services: WebContext) -> list[BaseRoute]:
    making = asyncio.Lock()  # a document with many event types takes most of a second: make one at a time

    async def show(request: Request) -> Response:
        try:
            found = await _for_caller(services, request, making)
            return Response(found, media_type="application/json", headers={"vary": "authorization"})
        except Exception as error:
            return await on_error(request, error)

    return [Route(f"{PREFIX}/openapi.json", show, methods=["GET"])]


async def _for_caller(services: WebContext, request: Request, making: asyncio.Lock) -> bytes:
    if "authorization" not in request.headers:
        return general()
    caller = await identify(services, request.scope)
    services.limits.take(caller)
    if caller.scope == Scope.PUBLISH:
        return general()
    async with services.customers.permit_for(caller.app), making:
        page = Page(limit=MAX_EVENT_TYPES)
        found = await event_types.page(services, caller, page, archived=False, content=True)
        return describe(found.rows)
