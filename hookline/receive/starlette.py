"""A decorator for endpoints of Starlette: the endpoint runs only for requests with a valid signature.

This holds for every path and every spelling of a path that leads to the endpoint.

    @verified(Verifier(os.environ["WEBHOOK_SECRET"]))
    async def hooks(request: Request, webhook: Webhook) -> Response: ...

    app = Starlette(routes=[Route("/hooks", hooks, methods=["POST"])])

Endpoints may be sync or async, functions or methods of an `HTTPEndpoint`.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from hookline.errors import InvalidInput
from hookline.receive import handlers
from hookline.receive.handlers import MAX_BODY, Address, Decorator, Handler
from hookline.receive.idempotency import core, problems
from hookline.receive.idempotency.asgi import incoming
from hookline.receive.idempotency.keys import StoredResponse
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.settings import IdempotencySettings
from hookline.receive.verify import Verifier, Webhook
from hookline.signing.headers import Headers

__all__ = ["verified"]


def verified(verifier: Verifier, *, url: Address | None = None, max_body: int = MAX_BODY) -> Decorator:
    """Make a decorator for an endpoint. A request with a wrong signature gets 401, as problem+json, and does not reach
    the endpoint. If the route is also a decorator, put `verified` below it."""
    settings = handlers.rules(verifier, url, max_body)

    async def webhook_among(args: tuple[Any, ...]) -> Webhook:
        return await webhook_of(settings, handlers.request_among(args, Request, "Starlette"))

    def decorate(endpoint: Handler) -> Handler:
        run = endpoint if inspect.iscoroutinefunction(endpoint) else functools.partial(run_in_threadpool, endpoint)
        return handlers.decorated(endpoint, webhook_among, to_starlette, run=run, is_async=True)

    return decorate


async def webhook_of(settings: IdempotencySettings, request: Request) -> Webhook:
    """Return the verified webhook. Raise `Answered` if the request is refused."""
    headers = Headers(request.scope["headers"])
    core.check_length(settings, headers)
    body = await _body(request, settings.max_body)
    return core.verify(settings, incoming(request.scope, headers, body))


async def _body(request: Request, limit: int) -> bytes:
    """Read the body up to the limit, and store it so that `request.body()` returns it."""
    if not hasattr(request, "_body"):
        request._body = await _read(request, limit)
    if len(request._body) > limit:
        raise Answered(problems.body_too_large(limit))
    return request._body


async def _read(request: Request, limit: int) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise Answered(problems.body_too_large(limit))
    except ClientDisconnect:
        raise Answered(problems.BODY_INCOMPLETE) from None
    except RuntimeError as fault:
        raise InvalidInput(
            "the body was read before its signature could be checked. Parse a form from `webhook.body`, "
            "not with a parameter or `request.form()`",
            field="verified",
        ) from fault
    return bytes(body)


def to_starlette(response: StoredResponse) -> Response:
    made = Response(response.body, response.status)
    made.raw_headers = list(response.headers)
    return made
