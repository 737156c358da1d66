"""The SQLite engine: one file, one writer thread and a few reader threads."""

from __future__ import annotations

import asyncio
from typing import Self

from hookline.security.vault import Vault
from hookline.store.plans.alerts import Alerts
from hookline.store.plans.api_keys import ApiKeys
from hookline.store.plans.applications import Applications
from hookline.store.plans.audit_log import AuditLog
from hookline.store.plans.dead_letters import DeadLetters
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
from hookline.store.protocols import StoreOptions
from hookline.store.sql import load
from hookline.store.sqlite.base import WakeEvents
from hookline.store.sqlite.claim import Claim
from hookline.store.sqlite.connect import connect, path_of, prepare
from hookline.store.sqlite.dead_letters import Moves
from hookline.store.sqlite.depths import DepthsOf
from hookline.store.sqlite.endpoint_state import EndpointState
from hookline.store.sqlite.ingest import Ingest
from hookline.store.sqlite.outbox import Outbox
from hookline.store.sqlite.readers import Readers
from hookline.store.sqlite.record import Record
from hookline.store.sqlite.schema_version import SchemaVersion
from hookline.store.sqlite.stats import Statistics
from hookline.store.sqlite.sweep import Sweep
from hookline.store.sqlite.transaction import Context
from hookline.store.sqlite.unhealthy_lanes import UnhealthyLanes
from hookline.store.sqlite.writer import Writer

__all__ = ["SqliteStore"]


class SqliteStore(
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
    Ingest,
    Outbox,
    RowsSetAside,
    Claim,
    Record,
    Sweep,
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
    """`protocols.Store` in one database file. Its parts are the modules beside this one. Each has a class with the
    async methods, and the functions that the writer or a reader runs for them."""

    engine = "sqlite"

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
    async def open(cls, url: str, *, vault: Vault, options: StoreOptions) -> SqliteStore:
        path = path_of(url)
        await asyncio.to_thread(prepare, path)
        conn = await asyncio.to_thread(connect, path, writes=True)
        context = Context(load("sqlite"), vault, options)
        events = WakeEvents()
        return cls(Writer(conn, path, context, events.set_all), Readers(path, context), context, events)
