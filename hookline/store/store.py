"""The store: one database, as the rest of Hookline uses it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime

from hookline.store.parts import Access, Catalogue, History, Monitoring, Pipeline, Repair
from hookline.store.stages import Upkeep


class Store(ABC):
    """One database. Open it with `hookline.store.open_store`. Its methods are in its parts.

    Every method is one transaction unless its docstring says otherwise. All instants come from the database's clock. A
    lost connection raises `StoreUnavailable`. Invalid input raises `InvalidInput`, `NotFound` or `Conflict` and
    changes nothing.

    Methods that a user triggers take a `note`: a function that turns the method's result into an entry of the audit
    log, or into None if nothing changed. The entry is written in the same transaction as the change, so the database
    has both or neither. Operational webhook events (`rules/operational_events.py`) are also written in the transaction
    of the change, if the organization subscribes to them.
    """

    engine: str  # "sqlite" | "postgres"
    # False if the last write of this process failed. Only heartbeats and commits of messages count as writes here.
    writable = True

    pipeline: Pipeline
    catalogue: Catalogue
    access: Access
    repair: Repair
    history: History
    monitoring: Monitoring
    upkeep: Upkeep

    @abstractmethod
    async def version(self) -> int:
        """Return the number of the newest applied migration; 0 for an empty database."""

    @abstractmethod
    async def migrate(self) -> list[int]:
        """Apply the missing migrations under one lock and return their numbers. Raises `MigrationNeeded` if the
        database is newer than this release."""

    @abstractmethod
    async def now(self) -> datetime: ...

    @abstractmethod
    async def close(self) -> None: ...


PARTS = ("pipeline", "catalogue", "access", "repair", "history", "monitoring", "upkeep")
