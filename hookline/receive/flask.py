"""A decorator for views of Flask that only accept signed requests, on any path.

    @app.post("/hooks")
    @verified(Verifier(os.environ["WEBHOOK_SECRET"]))
    def hooks(webhook: Webhook) -> dict: ...

Views may be sync or async, functions or methods of a `MethodView`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flask

from hookline.receive import handlers
from hookline.receive.handlers import MAX_BODY, Address
from hookline.receive.idempotency import core
from hookline.receive.idempotency.handler import rewind
from hookline.receive.idempotency.keys import StoredResponse
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.settings import IdempotencySettings
from hookline.receive.idempotency.wsgi import incoming
from hookline.receive.verify import Verifier, Webhook
from hookline.signing.headers import Headers

__all__ = ["verified"]

View = Callable[..., Any]


def verified(verifier: Verifier, *, url: Address | None = None, max_body: int = MAX_BODY) -> Callable[[View], View]:
    """Put this below the route's decorator. It answers 401, as problem+json, if the signature is wrong."""
    settings = handlers.rules(verifier, url, max_body)

    def decorate(view: View) -> View:
        handlers.check_takes_webhook(view)

        @functools.wraps(view)
        def call(*args: Any, **options: Any) -> Any:
            try:
                webhook = _webhook(settings)
            except Answered as answered:
                return _to_flask(answered.response)
            return flask.current_app.ensure_sync(view)(*args, webhook=webhook, **options)

        return call

    return decorate


def _webhook(settings: IdempotencySettings) -> Webhook:
    environ = flask.request.environ
    headers = Headers(environ)
    handlers.check_length(settings, headers)
    rewind(flask.request)
    webhook = core.verified(settings, incoming(settings, environ, headers)).webhook
    assert webhook is not None
    return webhook


def _to_flask(response: StoredResponse) -> flask.Response:
    return flask.Response(response.body, response.status, response.text_headers())
