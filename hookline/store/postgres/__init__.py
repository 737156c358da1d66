"""The PostgreSQL engine: many processes on many machines share one database."""

from __future__ import annotations

from typing import Self

from hookline.security.vault import Vault
from hookline.store.plans.alerts import Alerts
from hookline.store.plans.api_keys import ApiKeys
from hookline.store.plans.applications import Applications
from hookline.store.plans.audit_log import AuditLog
from hookline.store.plans.dead_letters import DeadLetters
from hookline.store.plans.endpoint_state import EndpointState
from hookline.store.plans.endpoints import Endpoints
from hookline.store.plans.event_types import EventTypes
from hookline.store.plans.kept_answers import KeptAnswers
from hookline.store.plans.message_search import MessageSearches
from hookline.store.plans.messages import Messages
from hookline.store.plans.names import Names
from hookline.store.plans.operators import Operators
from hookline.store.plans.pulses import Pulses
from hookline.store.plans.sealed_values import SealedValues
from hookline.store.plans.set_aside import RowsSetAside
from hookline.store.postgres.claim import Claim
from hookline.store.postgres.database import Database
from hookline.store.postgres.dead_letters import Moves
from hookline.store.postgres.depths import DepthsOf
from hookline.store.postgres.outbox import Outbox
from hookline.store.postgres.record import Record
from hookline.store.postgres.retire import Retire
from hookline.store.postgres.schema_version import SchemaVersion
from hookline.store.postgres.stats import Statistics
from hookline.store.postgres.unhealthy_lanes import UnhealthyLanes
from hookline.store.protocols import StoreOptions

__all__ = ["PostgresStore"]


class PostgresStore(
    SchemaVersion,
    Applications,
    EventTypes,
    Endpoints,
    EndpointState,
    ApiKeys,
    KeptAnswers,
    SealedValues,
    Operators,
    AuditLog,
    Outbox,
    RowsSetAside,
    Claim,
    Record,
    Retire,
    Pulses,
    DeadLetters,
    Moves,
    Messages,
    MessageSearches,
    Names,
    DepthsOf,
    UnhealthyLanes,
    Alerts,
    Statistics,
):
    """`protocols.Store` on PostgreSQL. Its parts are the modules beside this one."""

    engine = "postgres"

    @property
    def pipeline(self) -> Self:
        return self

    @property
    def catalogue(self) -> Self:
        return self

    @property
    def access(self) -> Self:
        return self

    @property
    def repair(self) -> Self:
        return self

    @property
    def history(self) -> Self:
        return self

    @property
    def monitoring(self) -> Self:
        return self

    @property
    def upkeep(self) -> Self:
        return self

    @classmethod
    async def open(cls, url: str, *, vault: Vault, options: StoreOptions) -> PostgresStore:
        database = Database(url, options)
        await database.open()
        return cls(database, vault, options)

    async def close(self) -> None:
        await self.leave_outbox()
        await self._close_listener()
        await self._db.close()
