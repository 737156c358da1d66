"""How a database is used."""

from __future__ import annotations

from msgspec import Struct

from hookline.model import CircuitPolicy, RetryPolicy


class StoreOptions(Struct, frozen=True, kw_only=True):
    """What the deployment decides for its store."""

    retry: RetryPolicy = RetryPolicy()
    circuit: CircuitPolicy = CircuitPolicy()
    lease: float = 60.0
    retention_days: int = 30  # history: attempts, delivered, messages
    dead_retention_days: int = 30
    audit_retention_days: int = 365
    idempotency_hours: float = 24.0
    max_payload: int = 1024 * 1024  # bytes of an outbox row's payload
    outbox_poll: float = 0.04  # seconds between two looks at this database's outbox
    pool_size: int = 10  # PostgreSQL connections of one process
