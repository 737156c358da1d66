"""The whole of a database: what the themes beside this module promise, and its own life."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from hookline.store.protocols.access import ApiKeys, KeptAnswers, Operators
from hookline.store.protocols.catalogue import Catalogue, EndpointState, Names
from hookline.store.protocols.dead import DeadLetters, Tasks
from hookline.store.protocols.flow import Claim, Ingest, Outbox, Record, Sweep
from hookline.store.protocols.observation import Alerts, Figures, Pulses
from hookline.store.protocols.sealing import Sealing
from hookline.store.protocols.views import Lanes, Views


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

    What `operational.Kind` names is told in the transaction in which it happens, where the organization listens.
    """

    engine: str  # "sqlite" | "postgres"

    async def version(self) -> int:
        """The number of the newest migration that was applied; 0 for an empty database."""

    async def migrate(self) -> list[int]:
        """Apply what is missing, under one lock; the numbers that were applied. Newer than us: `MigrationNeeded`."""

    async def now(self) -> datetime: ...
    async def close(self) -> None: ...
