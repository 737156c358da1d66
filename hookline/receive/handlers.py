"""The part of `verified` that all frameworks share: its settings, and how it checks and calls a handler.

A decorator of the handler runs for every request that reaches the handler, so no spelling of the path bypasses it.
The handler takes the webhook as a parameter without a default. So a call fails if the decorator is missing or in the
wrong place.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hookline.errors import InvalidInput
from hookline.outbox.coroutines import run_sync
from hookline.receive.idempotency.keys import StoredResponse
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.settings import IdempotencySettings, IncomingRequest
from hookline.receive.verify import Verifier, Webhook

MAX_BODY = 1 << 20  # maximum bytes of a request body

T = TypeVar("T")

Handler = Callable[..., Any]
Decorator = Callable[[Handler], Handler]
WebhookOf = Callable[[tuple[Any, ...]], Awaitable[Webhook]]  # takes the handler's positional arguments
ToResponse = Callable[[StoredResponse], Any]
Address = Callable[[IncomingRequest], str]  # returns the URL that the sender called

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def rules(verifier: Verifier, url: Address | None, max_body: int) -> IdempotencySettings:
    if verifier is None:
        raise InvalidInput("give a Verifier that was made with the secret", field="verified")
    return IdempotencySettings(verifier=verifier, url=url, max_body=max_body)


def decorated(
    handler: Handler, webhook_of: WebhookOf, to_response: ToResponse, *, run: Handler, is_async: bool
) -> Handler:
    """Return a function that takes the place of `handler`: it verifies the request, and then runs the handler.

    The function runs the handler by a call of `run`, with the arguments that it got and the webhook. `run` is `handler`
    itself, or a function that calls it in the way that the framework needs, for example in a thread. If the request is
    refused, the function returns the refusal, and the handler does not run. If `is_async` is True, the function is
    async. If not, `webhook_of` must never wait: there is no event loop.
    """
    _check_takes_webhook(handler)

    @functools.wraps(handler)
    async def call_async(*args: Any, **options: Any) -> Any:
        try:
            webhook = await webhook_of(args)
        except Answered as answered:
            return to_response(answered.response)
        result = run(*args, webhook=webhook, **options)
        return await result if is_async else result

    @functools.wraps(handler)
    def call(*args: Any, **options: Any) -> Any:
        return run_sync(call_async(*args, **options))

    return call_async if is_async else call


def _check_takes_webhook(handler: Handler) -> None:
    found = None if inspect.isclass(handler) else inspect.signature(handler).parameters.get("webhook")
    if found is None or found.kind not in _NAMED or found.default is not inspect.Parameter.empty:
        name = getattr(handler, "__qualname__", repr(handler))
        needed = "a parameter named `webhook` without a default, which gets the verified Webhook"
        advice = "In a class, decorate the method that handles the request"
        raise InvalidInput(f"@verified: {name} needs {needed}. {advice}")


def request_among(args: tuple[Any, ...], kind: type[T], framework: str) -> T:
    """Return the request: the first argument of a handler, or the second after `self`."""
    for arg in args[:2]:
        if isinstance(arg, kind):
            return arg
    reason = f"no request of {framework} was found; use the decorator of your framework"
    raise InvalidInput(f"@verified of hookline.receive.{framework.lower()}: {reason}")
