"""What the services work with. A server makes one `Deps` when it starts, a command makes one when it begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import Struct

from hookline.model import Accepted, BatchAccepted, CircuitPolicy, NewBatch, NewMessage, RetryPolicy
from hookline.rules.guard import Guard
from hookline.services.schemas.payloads import Schemas
from hookline.store.protocols import Store


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
