"""Alerts, the readings that cause them, and the changes that the alert rules decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hookline.model.states import Circuit, EndpointStatus

OTHERS = "others"  # subject of the one alert for all endpoints beyond the maximum number of single alerts


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
    """The result of evaluating one alert rule, whether the alert fires or not."""

    name: AlertName
    subject: str = ""  # an endpoint id; empty if the rule concerns the whole deployment
    org_id: str | None = None  # organization of the subject
    since: datetime | None = None  # when the condition began; None if unknown
    value: float
    threshold: float
    severity: Severity | None  # severity of the current value; None means healthy
    # For an alert that fires already: the highest severity that it may keep. If the severity of the alert is higher, it
    # falls to `lingering`. Otherwise it does not fall. None: the condition of the alert has ended. The thresholds of
    # `lingering` are easier to reach than those of `severity`, so that an alert does not start and end again and again.
    lingering: Severity | None
    text: str  # one line of text for operators


class Alert(Struct, frozen=True, kw_only=True):
    """One period in which an alert rule fired."""

    id: int
    name: str  # usually an `AlertName`; a row of another release may have an unknown name
    subject: str
    org_id: str | None = None  # organization of the subject
    severity: Severity
    began_at: datetime
    fired_at: datetime
    clear_since: datetime | None = None  # when the condition ended; None while it lasts
    resolved_at: datetime | None = None
    value: float  # the last value while the alert fired
    threshold: float
    text: str


class ConditionFields(Struct, frozen=True, kw_only=True):
    """What identifies the condition of an alert."""

    name: str
    subject: str


class Pending(ConditionFields, frozen=True, kw_only=True):
    """A condition that is true now, and becomes an alert if it lasts long enough."""

    began_at: datetime


# ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Begin(ConditionFields, frozen=True, kw_only=True):
    """The condition of an alert became true. The alert fires if the condition lasts long enough."""


class Forget(ConditionFields, frozen=True, kw_only=True):
    """Delete a pending condition, because it ended or because its alert fires now."""


class Fire(Struct, frozen=True, kw_only=True):
    reading: Reading
    severity: Severity
    began_at: datetime


class Update(Struct, frozen=True, kw_only=True):
    """The alert goes on firing, with new values."""

    alert: Alert
    worse: bool = False  # the severity is higher than in the last notification


class Resolve(Struct, frozen=True, kw_only=True):
    alert: Alert


Change = Begin | Forget | Fire | Update | Resolve


class Remembered(Struct, frozen=True, kw_only=True):
    """The stored alerts at the time when the rules are evaluated."""

    now: datetime
    firing: Sequence[Alert]
    pending: Sequence[Pending]


Decide = Callable[[Remembered], Sequence[Change]]


# ── notifications ─────────────────────────────────────────────────────────────────────────────────────────────────


class Notice(Struct, frozen=True, kw_only=True):
    """The notification that an alert fired, got more severe, or was resolved."""

    alert: Alert
    at: datetime
    test: bool = False

    @property
    def resolved(self) -> bool:
        return self.alert.resolved_at is not None


class Outgoing(Struct, frozen=True, kw_only=True):
    """A notification as an event in the outbox of Hookline's own internal application."""

    channel: str
    event_type: str
    event_id: str
    payload: bytes


Tell = Callable[[Notice], Sequence[Outgoing]]


# ── inputs of the rules ───────────────────────────────────────────────────────────────────────────────────────────


class EarlierCheck(Struct, frozen=True):
    """The time of an earlier evaluation of the rules, and the backlog at that time."""

    at: datetime
    backlog: int


class EarlierChecks(Struct, frozen=True, kw_only=True):
    now: datetime  # by the database's clock
    checks: Sequence[EarlierCheck]  # sorted by time, oldest first


class UnhealthyEndpoint(Struct, frozen=True, kw_only=True):
    """The state of an endpoint whose circuit is not closed, or many of whose recent attempts failed."""

    endpoint_no: int
    endpoint_id: str
    org_id: str
    app_id: str
    app_uid: str | None
    status: EndpointStatus
    circuit: Circuit
    opened_at: datetime | None
