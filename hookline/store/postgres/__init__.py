"""The PostgreSQL engine: many processes on many machines share one database."""

from __future__ import annotations

from datetime import datetime

from hookline.security.vault import Vault
from hookline.store.options import StoreOptions
from hookline.store.parts import Access, Catalogue, History, Monitoring, Pipeline, Repair
from hookline.store.postgres.claim import Claim
from hookline.store.postgres.copies import Copies
from hookline.store.postgres.database import Database
from hookline.store.postgres.depths import DepthCount
from hookline.store.postgres.ingest import Ingest
from hookline.store.postgres.lanes import Lanes
from hookline.store.postgres.migrate import Schema
from hookline.store.postgres.record import BatchRecord
from hookline.store.postgres.redelivery import Redelivery
from hookline.store.postgres.relay import Relay
from hookline.store.postgres.sweep import Sweep
from hookline.store.store import Store


class PostgresStore(Store):
    """A store in a PostgreSQL database. The modules beside this one implement ingest, relay, claim, record and the
    other stages of a message."""

    engine = "postgres"

    def __init__(self, database: Database) -> None:
        self._db = database
        self._schema = Schema(database)
        lanes, ingest = Lanes(database), Ingest(database)
        self._claim = Claim(database, lanes)
        self.pipeline = Pipeline(
            ingest,
            Relay(database, ingest, self._claim.wake),
            Copies(database, ingest, self._claim.wake),
            self._claim,
            BatchRecord(database, lanes),
        )
        self.catalogue = Catalogue(database)
        self.access = Access(database)
        self.repair = Repair(database, Redelivery(database))
        self.history = History(database)
        self.monitoring = Monitoring(database, DepthCount(database))
        self.upkeep = Sweep(database, lanes)

    @classmethod
    async def open(cls, url: str, *, vault: Vault, options: StoreOptions) -> PostgresStore:
        database = Database(url, vault, options)
        await database.open()
        return cls(database)

    async def version(self) -> int:
        return await self._schema.version()

    async def migrate(self) -> list[int]:
        return await self._schema.migrate()

    async def now(self) -> datetime:
        now: datetime = await self._db.fetchval("now")
        return now

    async def close(self) -> None:
        await self.pipeline.leave_outbox()
        await self._claim.close()
        await self._db.close()
