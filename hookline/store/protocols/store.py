"""The whole store: all protocols, plus migration, clock and closing."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from hookline.store.protocols.access import ApiKeys, KeptAnswers, Operators
from hookline.store.protocols.catalogue import Catalogue, EndpointState, Names
from hookline.store.protocols.history import Lanes, Views
from hookline.store.protocols.monitoring import Alerts, Figures, Pulses
from hookline.store.protocols.pipeline import Claim, Ingest, Outbox, Record, Sweep
from hookline.store.protocols.repair import DeadLetters, Tasks
from hookline.store.protocols.sealing import Sealing


class Store(
    Catalogue,
    Names,
    EndpointState,
    ApiKeys,
    KeptAnswers,
    Sealing,
    Operators,
    Ingest,
    Outbox,
    Claim,
    Record,
    Sweep,
    DeadLetters,
    Tasks,
    Views,
    Lanes,
    Figures,
    Pulses,
    Alerts,
    Protocol,
):
    """One database. Open it with `hookline.store.open_store`.

    Operational webhook events (`operational.Kind`) are written in the transaction of the change, if the organization
    subscribes to them.
    """

    engine: str  # "sqlite" | "postgres"

    async def version(self) -> int:
        """Return the number of the newest applied migration; 0 for an empty database."""

    async def migrate(self) -> list[int]:
        """Apply the missing migrations under one lock and return their numbers. Raises `MigrationNeeded` if the
        database is newer than this release."""

    async def now(self) -> datetime: ...
    async def close(self) -> None: ...
