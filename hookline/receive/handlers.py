"""What `verified` has in common in all frameworks: its settings, and what it asks of a handler.

A guard on the handler itself runs for whatever reaches the handler, so that no spelling of a path gets around it. The handler
takes the webhook as a parameter without a default: where the guard is missing or stands in the wrong place, the call fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from hookline.errors import InvalidInput
from hookline.receive.idempotency.core import Plan, needs_body
from hookline.receive.idempotency.settings import IdempotencySettings, IncomingRequest
from hookline.receive.verify import Verifier
from hookline.signing.headers import Headers

__all__ = ["MAX_BODY", "Address", "check_length", "check_takes_webhook", "rules"]

MAX_BODY = 1 << 20

Address = Callable[[IncomingRequest], str]  # as the sender has called it

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def rules(verifier: Verifier, url: Address | None, max_body: int) -> IdempotencySettings:
    if verifier is None:
        raise InvalidInput("give a Verifier, made with the secret", field="verified")
    return IdempotencySettings(verifier=verifier, url=url, max_body=max_body)


def check_takes_webhook(handler: Callable[..., Any]) -> None:
    found = None if inspect.isclass(handler) else inspect.signature(handler).parameters.get("webhook")
    if found is None or found.kind not in _NAMED or found.default is not inspect.Parameter.empty:
        name = getattr(handler, "__qualname__", repr(handler))
        raise InvalidInput(
            f"@verified: {name} needs a parameter named `webhook` without a default, which gets the verified Webhook. "
            "In a class, decorate the method that handles the request"
        )


def check_length(settings: IdempotencySettings, headers: Headers) -> None:
    """Raises `Answered` for a body that is announced as too long."""
    needs_body(settings, Plan(verifies=True), headers)
