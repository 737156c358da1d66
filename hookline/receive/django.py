"""A decorator for views of Django that only accept signed requests, on any path.

    @csrf_exempt
    @verified(Verifier(os.environ["WEBHOOK_SECRET"]))
    def hooks(request: HttpRequest, webhook: Webhook) -> HttpResponse: ...

Views may be sync or async, functions or methods of a `View`, such as `post`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest

from hookline.receive import handlers
from hookline.receive.handlers import MAX_BODY, Address
from hookline.receive.idempotency import core
from hookline.receive.idempotency.django import incoming, to_django
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.settings import IdempotencySettings
from hookline.receive.verify import Verifier, Webhook
from hookline.signing.headers import Headers

__all__ = ["verified"]

View = Callable[..., Any]


def verified(verifier: Verifier, *, url: Address | None = None, max_body: int = MAX_BODY) -> Callable[[View], View]:
    """Answer 401, as problem+json, if the signature is wrong."""
    settings = handlers.rules(verifier, url, max_body)

    def decorate(view: View) -> View:
        handlers.check_takes_webhook(view)

        @functools.wraps(view)
        def call(*args: Any, **options: Any) -> Any:
            try:
                webhook = _webhook(settings, handlers.request_among(args, HttpRequest, "Django"))
            except Answered as answered:
                return to_django(answered.response)
            return view(*args, webhook=webhook, **options)

        @functools.wraps(view)
        async def call_async(*args: Any, **options: Any) -> Any:
            """This must be a coroutine function: Django checks the function itself to decide whether to await it."""
            answer = call(*args, **options)
            return await answer if inspect.isawaitable(answer) else answer

        return call_async if inspect.iscoroutinefunction(view) else call

    return decorate


def _webhook(settings: IdempotencySettings, request: HttpRequest) -> Webhook:
    headers = Headers(request.headers)
    handlers.check_length(settings, headers)
    webhook = core.verified(settings, incoming(settings, request, headers)).webhook
    assert webhook is not None
    return webhook
