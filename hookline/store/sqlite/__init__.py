"""The SQLite engine: one file, one writer thread and a few reader threads."""

from __future__ import annotations

from datetime import datetime

from hookline.security.vault import Vault
from hookline.store.options import StoreOptions
from hookline.store.parts import Access, History, Monitoring, Pipeline, Repair
from hookline.store.sqlite import migrate
from hookline.store.sqlite.catalogue import SqliteCatalogue
from hookline.store.sqlite.claim import Claim
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.database import Database
from hookline.store.sqlite.depths import DepthCount
from hookline.store.sqlite.ingest import Ingest
from hookline.store.sqlite.outbox import Outbox
from hookline.store.sqlite.record import BatchRecord
from hookline.store.sqlite.redelivery import Redelivery
from hookline.store.sqlite.sweep import Sweep
from hookline.store.store import Store


class SqliteStore(Store):
    """A store in one database file. The modules beside this one implement ingest, relay, claim, record and the other
    stages of a message. Each module has a class with async methods, and the functions that the writer or a reader runs
    for these methods."""

    engine = "sqlite"

    def __init__(self, database: Database) -> None:
        self._db = database
        outbox = Outbox(database)
        self.pipeline = Pipeline(Ingest(database), outbox, outbox, Claim(database), BatchRecord(database))
        self.catalogue = SqliteCatalogue(database)
        self.access = Access(database)
        self.repair = Repair(database, Redelivery(database))
        self.history = History(database)
        self.monitoring = Monitoring(database, DepthCount(database))
        self.upkeep = Sweep(database)

    @classmethod
    async def open(cls, url: str, *, vault: Vault, options: StoreOptions) -> SqliteStore:
        return cls(await Database.open(url, vault, options))

    async def version(self) -> int:
        return await self._db.read(migrate.version)

    async def migrate(self) -> list[int]:
        return await self._db.write(migrate.apply_missing)

    async def now(self) -> datetime:
        return instant(self._db.context.clock.micros())

    async def close(self) -> None:
        await self._db.close()
