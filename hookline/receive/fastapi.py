"""A dependency for FastAPI: the handler runs only for requests with a valid signature.

This holds for every path and every spelling of a path that leads to the handler.

    @app.post("/hooks")
    async def hooks(webhook: Annotated[Webhook, Depends(verified(verifier))]) -> dict: ...

If the handler also has a parameter for the body, FastAPI parses the body first: malformed JSON gets 422 before the
signature is checked, and the handler does not run. To parse the body after the signature was checked, call
`webhook.json(OrderPaid)` instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hookline.receive import handlers
from hookline.receive.handlers import MAX_BODY, Address
from hookline.receive.idempotency.problems import Answered
from hookline.receive.starlette import to_starlette, webhook_of
from hookline.receive.verify import Verifier, Webhook

__all__ = ["verified"]

Dependency = Callable[[Request], Awaitable[Webhook]]


class _Refused(HTTPException):
    def __init__(self, answered: Answered) -> None:
        super().__init__(answered.response.status)
        self.response = answered.response


def verified(verifier: Verifier, *, url: Address | None = None, max_body: int = MAX_BODY) -> Dependency:
    """Make a dependency for `Depends`. It answers 401, as problem+json, if the signature is wrong."""
    settings = handlers.rules(verifier, url, max_body)

    async def webhook(request: Request) -> Webhook:
        try:
            return await webhook_of(settings, request)
        except Answered as answered:
            _register_response(request)
            raise _Refused(answered) from None

    return webhook


def _register_response(request: Request) -> None:
    """Register an exception handler for `_Refused`: a dependency cannot return a response, so it raises this error.

    If the application does not use Starlette's exception handlers, nothing is registered. The application's own error
    handling then answers with the same status, but perhaps not as problem+json.
    """
    by_class, _by_status = request.scope.get("starlette.exception_handlers", ({}, {}))
    by_class.setdefault(_Refused, _answer)


async def _answer(_request: Request, refused: Any) -> Response:
    return to_starlette(refused.response)
