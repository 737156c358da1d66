"""The parts of a store. A part is a class that both engines share, or it combines objects that each engine implements
itself."""

from __future__ import annotations

from hookline.store.plans.alerts import Alerts
from hookline.store.plans.api_keys import ApiKeys
from hookline.store.plans.applications import Applications
from hookline.store.plans.audit_log import AuditLog
from hookline.store.plans.dead_letters import DeadLetters
from hookline.store.plans.endpoint_state import EndpointState
from hookline.store.plans.endpoints import Endpoints
from hookline.store.plans.event_types import EventTypes
from hookline.store.plans.kept_answers import KeptAnswers
from hookline.store.plans.lanes import Lanes
from hookline.store.plans.message_search import MessageSearches
from hookline.store.plans.messages import Messages
from hookline.store.plans.names import Names
from hookline.store.plans.operators import Operators
from hookline.store.plans.plan import Database
from hookline.store.plans.pulses import Pulses
from hookline.store.plans.record import BatchRecord, Record
from hookline.store.plans.sealed_values import SealedValues
from hookline.store.plans.set_aside import SetAsideRows
from hookline.store.plans.stats import Statistics
from hookline.store.plans.tasks import Tasks
from hookline.store.stages import Claim, Copies, DepthCount, Ingest, Relay


class Pipeline:
    """The path of a message: ingest or relay, claim, record. `stages.py` describes each method."""

    def __init__(self, ingest: Ingest, relay: Relay, copies: Copies, claim: Claim, batch: BatchRecord) -> None:
        self.ingest = ingest.ingest
        self.ingest_batch = ingest.ingest_batch
        self.accepted_under = ingest.accepted_under
        self.relay = relay.relay
        self.wait_outbox = relay.wait_outbox
        self.leave_outbox = relay.leave_outbox
        self.take = copies.take
        self.place = copies.place
        self.claim = claim.claim
        self.release = claim.release
        self.arm = claim.arm
        self.wait = claim.wait
        self.wake = claim.wake
        self.record = Record(batch).record


class Catalogue(Applications, EventTypes, Endpoints, EndpointState, Names):
    """Organizations, applications, event types, endpoints, their names, status and circuits."""


class Access(ApiKeys, KeptAnswers, Operators, AuditLog, SealedValues):
    """API keys, revocations, stored answers, operators, sessions, the audit log, encrypted values."""


class Repair(DeadLetters, Tasks, SetAsideRows):
    """Dead letters, replays, background tasks, rows that were set aside."""


class History(Messages, MessageSearches, Lanes):
    """Messages, deliveries, attempts, lanes and timelines, searches."""


class Monitoring(Statistics, Pulses, Alerts):
    """Counts, statistics, pulses, alerts."""

    def __init__(self, database: Database, depth_count: DepthCount) -> None:
        super().__init__(database)
        self.depths = depth_count.depths
