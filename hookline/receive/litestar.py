"""A middleware for routes of Litestar: the handler runs only for requests with a valid signature.

This holds for every path and every spelling of a path that leads to the handler.

    @post("/hooks", middleware=[verified(verifier)])
    async def hooks(request: Request) -> dict:
        webhook = request.state.hookline_webhook

Litestar calls the middleware of a route after routing, and before it parses the request.
"""

from __future__ import annotations

from collections.abc import Callable

from hookline.errors import InvalidInput
from hookline.receive import handlers
from hookline.receive.handlers import MAX_BODY, Address
from hookline.receive.idempotency import asgi, core, problems
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.settings import IdempotencySettings
from hookline.receive.verify import Verifier
from hookline.signing.headers import Headers

__all__ = ["verified"]

Middleware = Callable[[asgi.Application], asgi.Application]


def verified(verifier: Verifier, *, url: Address | None = None, max_body: int = MAX_BODY) -> Middleware:
    """Make a middleware for a route, a controller or a router. It answers 401, as problem+json, if the signature is
    wrong."""
    settings = handlers.rules(verifier, url, max_body)

    def middleware(app: asgi.Application) -> asgi.Application:
        async def call(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
            if scope["type"] != "http":
                reason = "a webhook is an HTTP request, but this route is for another protocol"
                raise InvalidInput(reason, field="verified")
            try:
                receive_again = await _verify(settings, scope, receive)
            except Answered as answered:
                await asgi.send_response(send, answered.response)
            else:
                await app(scope, receive_again, send)

        return call

    return middleware


async def _verify(settings: IdempotencySettings, scope: asgi.Scope, receive: asgi.Receive) -> asgi.Receive:
    """Put the verified webhook into the state of the request.

    Return a `receive` function that returns the body again.
    """
    headers = Headers(scope["headers"])
    core.check_length(settings, headers)
    body = await asgi.read_body(scope, receive, settings.max_body)
    if body is None:
        raise Answered(problems.BODY_INCOMPLETE)
    scope.setdefault("state", {})[asgi.WEBHOOK] = core.verify(settings, asgi.incoming(scope, headers, body))
    return asgi.ReadBody(body, receive)
