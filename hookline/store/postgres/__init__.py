"""The PostgreSQL engine: any number of processes on any number of machines share one database."""

from __future__ import annotations

from hookline.security.vault import Vault
from hookline.store.postgres.alerts import Alerts
from hookline.store.postgres.api_keys import ApiKeys
from hookline.store.postgres.claim import Claim
from hookline.store.postgres.database import Database
from hookline.store.postgres.depths import DepthsOf
from hookline.store.postgres.kept_answers import KeptAnswers
from hookline.store.postgres.message_search import MessageSearches
from hookline.store.postgres.names import Names
from hookline.store.postgres.operators import Operators
from hookline.store.postgres.outbox import Outbox
from hookline.store.postgres.pulses import Pulses
from hookline.store.postgres.record import Record
from hookline.store.postgres.retire import Retire
from hookline.store.postgres.schema_version import SchemaVersion
from hookline.store.postgres.stats import Statistics
from hookline.store.postgres.tasks import Tasks
from hookline.store.postgres.test_message import Examples
from hookline.store.postgres.unhealthy_lanes import UnhealthyLanes
from hookline.store.postgres.views import Views
from hookline.store.protocols import StoreOptions

__all__ = ["PostgresStore"]


class PostgresStore(
    SchemaVersion,
    ApiKeys,
    KeptAnswers,
    Operators,
    Outbox,
    Claim,
    Record,
    Retire,
    Pulses,
    Tasks,
    Examples,
    Views,
    MessageSearches,
    Names,
    DepthsOf,
    UnhealthyLanes,
    Alerts,
    Statistics,
):
    """`base.Store` on PostgreSQL. Its parts, in the order of the flow, are the modules beside this one."""

    engine = "postgres"

    @classmethod
    async def open(cls, url: str, *, vault: Vault, options: StoreOptions) -> PostgresStore:
        database = Database(url, options)
        await database.open()
        return cls(database, vault, options)

    async def close(self) -> None:
        await self.leave_outbox()
        await self._close_listener()
        await self._db.close()
