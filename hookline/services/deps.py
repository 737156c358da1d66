"""The dependencies of the services. A server creates one `Deps` when it starts, and each command creates one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import Struct

from hookline.model.callers import Caller
from hookline.model.catalogue import Application
from hookline.model.messages import Accepted, BatchAccepted, NewBatch, NewMessage
from hookline.model.policy import CircuitPolicy, RetryPolicy
from hookline.rules.guard import Guard
from hookline.services.schemas.payloads import Schemas
from hookline.store import Store


def _nothing(_gone: object) -> None:
    """Do nothing: a command caches no applications and no callers."""


class Deps(Struct, frozen=True, kw_only=True):
    store: Store
    guard: Guard
    schemas: Schemas
    submit: Callable[[NewMessage], Awaitable[Accepted]]  # group commit; returns once the message is durable
    submit_batch: Callable[[NewBatch], Awaitable[BatchAccepted]]  # group commit; returns once the batch is durable
    wall: Callable[[], datetime]
    max_payload: int
    retention_days: int  # days for which finished messages are kept
    # If an application has this many endpoints, its customers cannot create more. 0: no limit.
    customer_endpoints: int = 100
    circuit: CircuitPolicy = CircuitPolicy()
    retry: RetryPolicy = RetryPolicy()
    token_secret: str  # signs API tokens and sign-in links
    # A server caches applications and callers for a few seconds. An action calls these functions after a change:
    forget_application: Callable[[Application], None] = _nothing  # drops this application from the cache
    # Drops from the cache each caller for which the given function returns True.
    forget_callers: Callable[[Callable[[Caller], bool]], None] = _nothing

    def __repr__(self) -> str:
        """Show no fields, because one of them is a secret."""
        return f"{type(self).__name__}(…)"
