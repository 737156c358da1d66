"""The whole of a database: what the themes beside this module promise, and its own life."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from hookline.store.base.access import Answers, Keys, People
from hookline.store.base.catalogue import Catalogue, Names, Steering
from hookline.store.base.dead import DeadLetters, Tasks
from hookline.store.base.flow import Claim, Ingest, Outbox, Record, Sweep
from hookline.store.base.observation import Alerts, Figures, Pulses
from hookline.store.base.sealing import Sealing
from hookline.store.base.views import Lanes, Views


class Store(
    Catalogue,
    Names,
    Steering,
    Keys,
    Answers,
    Sealing,
    People,
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
