"""Options of a store."""

from __future__ import annotations

from msgspec import Struct

from hookline.model.policy import CircuitPolicy, RetryPolicy


class StoreOptions(Struct, frozen=True, kw_only=True):
    """The settings that a deployment chooses for its store."""

    retry: RetryPolicy = RetryPolicy()
    circuit: CircuitPolicy = CircuitPolicy()
    lease: float = 60.0
    retention_days: int = 30  # days to keep history: messages, finished deliveries, attempts
    dead_retention_days: int = 30
    audit_retention_days: int = 365
    pause_dead_per_day: int = 100  # an endpoint with more dead letters in a day is paused
    idempotency_hours: float = 24.0
    max_payload: int = 1024 * 1024  # maximum bytes of an outbox row's payload
    outbox_poll: float = 0.04  # seconds between two polls of the outbox in this PostgreSQL database
    pool_size: int = 10  # PostgreSQL connections of one process
