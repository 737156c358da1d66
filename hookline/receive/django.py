"""A decorator for views of Django: the view runs only for requests with a valid signature.

This holds for every path and every spelling of a path that leads to the view.

    @csrf_exempt
    @verified(Verifier(os.environ["WEBHOOK_SECRET"]))
    def hooks(request: HttpRequest, webhook: Webhook) -> HttpResponse: ...

Views may be sync or async, functions or methods of a `View`, such as `post`.
"""

from __future__ import annotations

import inspect
from typing import Any

from django.http import HttpRequest

from hookline.receive import handlers
from hookline.receive.handlers import MAX_BODY, Address, Decorator, Handler
from hookline.receive.idempotency import core
from hookline.receive.idempotency.django import incoming, to_django
from hookline.receive.verify import Verifier, Webhook
from hookline.signing.headers import Headers

__all__ = ["verified"]


def verified(verifier: Verifier, *, url: Address | None = None, max_body: int = MAX_BODY) -> Decorator:
    """Make a decorator for a view. It answers 401, as problem+json, if the signature is wrong."""
    settings = handlers.rules(verifier, url, max_body)

    async def webhook_of(args: tuple[Any, ...]) -> Webhook:
        request = handlers.request_among(args, HttpRequest, "Django")
        headers = Headers(request.headers)
        core.check_length(settings, headers)
        return core.verify(settings, incoming(settings, request, headers))

    def decorate(view: Handler) -> Handler:
        """Return an async function for an async view, and a plain function for any other view. Django awaits only
        async functions."""
        is_async = inspect.iscoroutinefunction(view)
        return handlers.decorated(view, webhook_of, to_django, run=view, is_async=is_async)

    return decorate
