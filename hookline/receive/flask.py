"""A decorator for views of Flask: the view runs only for requests with a valid signature.

This holds for every path and every spelling of a path that leads to the view.

    @app.post("/hooks")
    @verified(Verifier(os.environ["WEBHOOK_SECRET"]))
    def hooks(webhook: Webhook) -> dict: ...

Views may be sync or async, functions or methods of a `MethodView`.
"""

from __future__ import annotations

from typing import Any

import flask

from hookline.receive import handlers
from hookline.receive.handlers import MAX_BODY, Address, Decorator, Handler
from hookline.receive.idempotency import core
from hookline.receive.idempotency.handler import rewind
from hookline.receive.idempotency.keys import StoredResponse
from hookline.receive.idempotency.wsgi import incoming
from hookline.receive.verify import Verifier, Webhook
from hookline.signing.headers import Headers

__all__ = ["verified"]


def verified(verifier: Verifier, *, url: Address | None = None, max_body: int = MAX_BODY) -> Decorator:
    """Put this below the route's decorator. It answers 401, as problem+json, if the signature is wrong."""
    settings = handlers.rules(verifier, url, max_body)

    async def webhook_of(_args: tuple[Any, ...]) -> Webhook:
        environ = flask.request.environ
        headers = Headers(environ)
        core.check_length(settings, headers)
        rewind(flask.request)
        return core.verify(settings, incoming(settings, environ, headers))

    def decorate(view: Handler) -> Handler:
        def run(*args: Any, **options: Any) -> Any:
            return flask.current_app.ensure_sync(view)(*args, **options)

        return handlers.decorated(view, webhook_of, _to_flask, run=run, is_async=False)

    return decorate


def _to_flask(response: StoredResponse) -> flask.Response:
    return flask.Response(response.body, response.status, response.text_headers())
