"""What an alert is, and what a rule saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hookline.model.states import Circuit, EndpointStatus

OTHERS = "others"  # the subject of those that are too many to be told one by one


class Severity(StrEnum):
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class AlertName(StrEnum):
    BACKLOG = "backlog"
    BACKLOG_GROWING = "backlog_growing"
    FIRST_ATTEMPT_LATENCY = "first_attempt_latency"
    DEAD_LETTERS = "dead_letters"
    DEAD_LETTERS_GROWING = "dead_letters_growing"
    RETRIES_FAILING = "retries_failing"
    ENDPOINT_FAILING = "endpoint_failing"
    CIRCUIT_OPEN = "circuit_open"
    LAST_ATTEMPTS = "last_attempts"
    OUTBOX_LAG = "outbox_lag"
    LEASES_EXPIRED = "leases_expired"


class Reading(Struct, frozen=True, kw_only=True):
    """What a rule saw, good or bad."""

    name: AlertName
    subject: str = ""  # what it is about, where that is not the whole: an endpoint's id
    org_id: str | None = None  # the subject's
    since: datetime | None = None  # when it began, where that is known; else it is when it was first seen
    value: float
    threshold: float
    severity: Severity | None  # that the value is worth; None: all is well
    lingering: Severity | None  # that an alert keeps which fires already: it ends lower than it begins
    text: str  # one line, for people


class Alert(Struct, frozen=True, kw_only=True):
    """One time that a rule fired."""

    id: int
    name: str  # of a `AlertName`; a row may be another release's
    subject: str
    org_id: str | None = None  # the subject's
    severity: Severity
    began_at: datetime
    fired_at: datetime
    clear_since: datetime | None = None  # it seems to be over
    resolved_at: datetime | None = None
    value: float  # the last that was seen while it fired
    threshold: float
    text: str


class Pending(Struct, frozen=True, kw_only=True):
    """What will be an alert if it lasts."""

    name: str
    subject: str
    began_at: datetime


# ── what is decided ───────────────────────────────────────────────────────────────────────────────────────────────


class Begin(Struct, frozen=True, kw_only=True):
    """From now on it must last."""

    name: str
    subject: str


class Forget(Struct, frozen=True, kw_only=True):
    """It did not last."""

    name: str
    subject: str


class Fire(Struct, frozen=True, kw_only=True):
    reading: Reading
    severity: Severity
    began_at: datetime


class Update(Struct, frozen=True, kw_only=True):
    """The alert as it is now."""

    alert: Alert
    worse: bool = False  # more severe than it was told to be


class Resolve(Struct, frozen=True, kw_only=True):
    alert: Alert


Change = Begin | Forget | Fire | Update | Resolve


class Remembered(Struct, frozen=True, kw_only=True):
    """What the database knows when the rules were asked."""

    now: datetime
    firing: Sequence[Alert]
    pending: Sequence[Pending]


Decide = Callable[[Remembered], Sequence[Change]]


# ── what is told ──────────────────────────────────────────────────────────────────────────────────────────────────


class Notice(Struct, frozen=True, kw_only=True):
    """An alert fired, got worse, or is resolved."""

    alert: Alert
    at: datetime
    test: bool = False

    @property
    def resolved(self) -> bool:
        return self.alert.resolved_at is not None


class Outgoing(Struct, frozen=True, kw_only=True):
    """A message of the system's own application: a row of the outbox."""

    channel: str
    event_type: str
    event_id: str
    payload: bytes


Tell = Callable[[Notice], Sequence[Outgoing]]


# ── what is looked at ─────────────────────────────────────────────────────────────────────────────────────────────


class EarlierCheck(Struct, frozen=True):
    """An earlier time that the rules were asked."""

    at: datetime
    backlog: int


class EarlierChecks(Struct, frozen=True, kw_only=True):
    now: datetime  # the database's
    looks: Sequence[EarlierCheck]  # oldest first


class UnhealthyEndpoint(Struct, frozen=True, kw_only=True):
    """An endpoint whose circuit is not closed, or that was asked for."""

    endpoint_no: int
    endpoint_id: str
    org_id: str
    app_id: str
    app_uid: str | None
    status: EndpointStatus
    circuit: Circuit
    opened_at: datetime | None
