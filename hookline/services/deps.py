"""What the services work with. A server makes one `Deps` when it starts, a command makes one when it begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import Struct

from hookline.model import Accepted, Application, BatchAccepted, CircuitPolicy, NewBatch, NewMessage, RetryPolicy
from hookline.model.callers import Caller
from hookline.rules.guard import Guard
from hookline.services.schemas.payloads import Schemas
from hookline.store.protocols import Store


def _nothing(_gone: object) -> None:
    """A command remembers nobody between two actions."""


class Deps(Struct, frozen=True, kw_only=True):
    store: Store
    guard: Guard
    schemas: Schemas
    submit: Callable[[NewMessage], Awaitable[Accepted]]  # group commit: returns once the message is durable
    submit_batch: Callable[[NewBatch], Awaitable[BatchAccepted]]  # likewise
    wall: Callable[[], datetime]
    max_payload: int
    retention_days: int  # of finished messages
    customer_endpoints: int = 100  # that a customer may have in one application; 0: no limit
    circuit: CircuitPolicy = CircuitPolicy()
    retry: RetryPolicy = RetryPolicy()
    token_secret: str  # signs API tokens and sign-in links
    # A server remembers applications and callers for moments. These drop what an action has changed:
    forget_application: Callable[[Application], None] = _nothing
    forget_callers: Callable[[Callable[[Caller], bool]], None] = _nothing  # those for whom the function is true

    def __repr__(self) -> str:
        """Without the secret."""
        return f"{type(self).__name__}(…)"
