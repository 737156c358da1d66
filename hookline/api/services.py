"""What the handlers work with: made once by whoever serves, and handed to `create_app`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import Struct

from hookline.api.auth import Auth
from hookline.api.front import FrontSettings
from hookline.api.idempotency import Answers
from hookline.api.limits import Limits
from hookline.flow.guard import Guard
from hookline.model import Accepted, BatchAccepted, CircuitPolicy, NewBatch, NewMessage
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.schema import Schemas
from hookline.store.base import Store


class Services(Struct, frozen=True, kw_only=True):
    store: Store
    tally: Tally
    submit: Callable[[NewMessage], Awaitable[Accepted]]  # group commit: answers once the message is durable
    submit_batch: Callable[[NewBatch], Awaitable[BatchAccepted]]  # likewise
    auth: Auth
    guard: Guard
    schemas: Schemas  # `check` a payload before it is accepted
    limits: Limits
    answers: Answers
    front: FrontSettings
    public_url: str | None  # of this server, as browsers reach it; None: as the caller has reached it
    wall: Callable[[], datetime]
    monotonic: Callable[[], float]
    max_payload: int
    max_batch: int  # bytes of a request that has many messages
    retention_days: int  # of finished messages
    traces: Traces | None = None
    circuit: CircuitPolicy = CircuitPolicy()
    body_time: float = 30.0  # seconds in which a request's whole body must have come
