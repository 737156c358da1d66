"""The whole store: its parts, migration, clock and closing."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from hookline.store.protocols.access import ApiKeys, KeptAnswers, Operators
from hookline.store.protocols.catalogue import Catalogue as Objects
from hookline.store.protocols.catalogue import EndpointState, Names
from hookline.store.protocols.history import Lanes, Views
from hookline.store.protocols.monitoring import Alerts, Figures, Pulses
from hookline.store.protocols.pipeline import Claim, Ingest, Record, Relay, SetAsideRows, Upkeep
from hookline.store.protocols.repair import DeadLetters, Tasks
from hookline.store.protocols.sealing import Sealing


class Pipeline(Ingest, Relay, Claim, Record, Protocol):
    """The path of a message: accept, relay, claim, record."""


class Catalogue(Objects, Names, EndpointState, Protocol):
    """Organizations, applications, event types and endpoints."""


class Access(ApiKeys, KeptAnswers, Operators, Sealing, Protocol):
    """Authentication, stored responses, encrypted values and the audit log."""


class Repair(DeadLetters, Tasks, SetAsideRows, Protocol):
    """Dead letters, replays, background tasks and outbox rows that were set aside."""


class History(Views, Lanes, Protocol):
    """Messages, deliveries, attempts, lanes and timelines."""


class Monitoring(Figures, Pulses, Alerts, Protocol):
    """Counts, statistics, pulses and alerts."""


PARTS = ("pipeline", "catalogue", "access", "repair", "history", "monitoring", "upkeep")


class Store(Protocol):
    """One database. Open it with `hookline.store.open_store`. Its methods are in its parts.

    Operational webhook events (`operational.Kind`) are written in the transaction of the change, if the organization
    subscribes to them.
    """

    engine: str  # "sqlite" | "postgres"

    @property
    def pipeline(self) -> Pipeline: ...
    @property
    def catalogue(self) -> Catalogue: ...
    @property
    def access(self) -> Access: ...
    @property
    def repair(self) -> Repair: ...
    @property
    def history(self) -> History: ...
    @property
    def monitoring(self) -> Monitoring: ...
    @property
    def upkeep(self) -> Upkeep: ...

    async def version(self) -> int:
        """Return the number of the newest applied migration; 0 for an empty database."""

    async def migrate(self) -> list[int]:
        """Apply the missing migrations under one lock and return their numbers. Raises `MigrationNeeded` if the
        database is newer than this release."""

    async def now(self) -> datetime: ...
    async def close(self) -> None: ...
