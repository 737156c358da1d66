"""The part of `verified` that all frameworks share: its settings, and the check of the decorated handler.

A decorator of the handler runs for every request that reaches the handler, so that no spelling of a path bypasses it. The
handler takes the webhook as a parameter without a default. So a call fails if the decorator is missing or in the wrong place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from hookline.errors import InvalidInput
from hookline.receive.idempotency.core import Plan, needs_body
from hookline.receive.idempotency.settings import IdempotencySettings, IncomingRequest
from hookline.receive.verify import Verifier
from hookline.signing.headers import Headers

MAX_BODY = 1 << 20  # bytes

T = TypeVar("T")

Address = Callable[[IncomingRequest], str]  # returns the URL that the sender called

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def rules(verifier: Verifier, url: Address | None, max_body: int) -> IdempotencySettings:
    if verifier is None:
        raise InvalidInput("give a Verifier that was made with the secret", field="verified")
    return IdempotencySettings(verifier=verifier, url=url, max_body=max_body)


def check_takes_webhook(handler: Callable[..., Any]) -> None:
    found = None if inspect.isclass(handler) else inspect.signature(handler).parameters.get("webhook")
    if found is None or found.kind not in _NAMED or found.default is not inspect.Parameter.empty:
        name = getattr(handler, "__qualname__", repr(handler))
        raise InvalidInput(
            f"@verified: {name} needs a parameter named `webhook` without a default, which gets the verified Webhook. "
            "In a class, decorate the method that handles the request"
        )


def request_among(args: tuple[Any, ...], kind: type[T], framework: str) -> T:
    """Return the request among the arguments of a handler. A method has `self` first."""
    for arg in args[:2]:
        if isinstance(arg, kind):
            return arg
    raise InvalidInput(
        f"@verified of hookline.receive.{framework.lower()}: no request of {framework} was found; "
        "use the decorator of your framework"
    )


def check_length(settings: IdempotencySettings, headers: Headers) -> None:
    """Raise `Answered` if Content-Length is above the limit."""
    needs_body(settings, Plan(verifies=True), headers)
