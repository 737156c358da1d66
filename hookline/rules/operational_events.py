"""Operational webhooks: what an organization is told of its own endpoints and deliveries, and in which words. Pure.

An event is a row of the outbox, written in the transaction of the change that it tells of: neither lost nor invented. Its
receiver is an endpoint like any other, in an application that the management organization has for each organization.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from hookline import ids
from hookline.clock import to_micros
from hookline.model import Dead, Delivered, LaneEvent, LaneEventKind, Result, Retry
from hookline.model.states import Reason
from hookline.rules import redaction

# As Svix's server has it. What happens to its own endpoints is not told: an event about an event would make another.
MANAGEMENT = "org_00000000000SvixManagement00"
ALERTS = "hookline.alerts"  # the uid of the application there whose messages are alerts
LONGEST = 64 * 1024  # bytes of an event: more than any has
FAILING = 4  # the failed attempt of a delivery that is told of, as Svix does

_MANUAL = 1  # the trigger of what was sent again by hand


class Kind(StrEnum):
    """The event's type. Svix's names; those that it does not have are in the same style."""

    ENDPOINT_CREATED = "endpoint.created"
    ENDPOINT_UPDATED = "endpoint.updated"
    ENDPOINT_DELETED = "endpoint.deleted"
    ENDPOINT_DISABLED = "endpoint.disabled"
    ENDPOINT_ENABLED = "endpoint.enabled"
    ENDPOINT_PAUSED = "endpoint.paused"
    ENDPOINT_RESUMED = "endpoint.resumed"
    CIRCUIT_OPENED = "circuit.opened"
    CIRCUIT_CLOSED = "circuit.closed"
    ATTEMPT_FAILING = "message.attempt.failing"
    ATTEMPT_EXHAUSTED = "message.attempt.exhausted"
    ATTEMPT_RECOVERED = "message.attempt.recovered"
    DEAD_REPLAYED = "dead_letter.replayed"
    DEAD_RESOLVED = "dead_letter.resolved"


DESCRIPTIONS: Mapping[Kind, str] = {
    Kind.ENDPOINT_CREATED: "An endpoint was created.",
    Kind.ENDPOINT_UPDATED: "An endpoint was changed.",
    Kind.ENDPOINT_DELETED: "An endpoint was deleted.",
    Kind.ENDPOINT_DISABLED: "An endpoint was disabled, by hand or because it was gone or failing for long.",
    Kind.ENDPOINT_ENABLED: "A disabled endpoint was enabled.",
    Kind.ENDPOINT_PAUSED: "An endpoint was paused, by hand or because too many of its deliveries died.",
    Kind.ENDPOINT_RESUMED: "A paused endpoint was resumed.",
    Kind.CIRCUIT_OPENED: "An endpoint failed again and again, or somebody opened its circuit: nothing but probes is sent to it.",
    Kind.CIRCUIT_CLOSED: "An endpoint is well again, or its circuit was reset.",
    Kind.ATTEMPT_FAILING: "The fourth attempt of a delivery failed.",
    Kind.ATTEMPT_EXHAUSTED: "A delivery died: it is a dead letter now.",
    Kind.ATTEMPT_RECOVERED: "A delivery that had been failing, or was replayed, succeeded.",
    Kind.DEAD_REPLAYED: "Dead letters of an endpoint were replayed: they are deliveries again.",
    Kind.DEAD_RESOLVED: "Dead letters of an endpoint were resolved, with a note.",
}

_OF_LANES = {
    LaneEventKind.CIRCUIT_OPENED: Kind.CIRCUIT_OPENED,
    LaneEventKind.CIRCUIT_CLOSED: Kind.CIRCUIT_CLOSED,
    LaneEventKind.ENDPOINT_PAUSED: Kind.ENDPOINT_PAUSED,
    LaneEventKind.ENDPOINT_RESUMED: Kind.ENDPOINT_RESUMED,
    LaneEventKind.ENDPOINT_DISABLED: Kind.ENDPOINT_DISABLED,
    LaneEventKind.ENDPOINT_ENABLED: Kind.ENDPOINT_ENABLED,
}


# ── what happened ─────────────────────────────────────────────────────────────────────────────────────────────────


class EndpointEvent(Struct, frozen=True, kw_only=True):
    """Something happened to an endpoint."""

    kind: Kind
    endpoint_no: int
    cause: str | None = None
    by_hand: bool = False


class LastAttempt(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    response_status_code: int  # 0: there was no answer
    timestamp: datetime


class DeliveryEvent(Struct, frozen=True, kw_only=True):
    """Something happened to a delivery."""

    kind: Kind
    endpoint_no: int
    delivery_id: int
    message_id: str
    accepted_at: datetime
    sent: int  # attempts until now
    at: datetime  # of this turn; with the delivery it tells it from all others
    reason: Reason | None = None  # of a death
    last: LastAttempt | None = None  # None: to be looked up, if any was sent


class Batch(Struct, frozen=True, kw_only=True):
    """Something was done to several dead letters of an endpoint at once."""

    kind: Kind
    endpoint_no: int
    count: int
    first: int  # the smallest number among them; with the instant it tells this batch from all others
    at: datetime
    note: str | None = None


Note = EndpointEvent | DeliveryEvent | Batch


def created(endpoint_no: int) -> list[EndpointEvent]:
    return [EndpointEvent(kind=Kind.ENDPOINT_CREATED, endpoint_no=endpoint_no)]


def updated(endpoint_no: int) -> list[EndpointEvent]:
    return [EndpointEvent(kind=Kind.ENDPOINT_UPDATED, endpoint_no=endpoint_no)]


def deleted(endpoint_nos: Iterable[int]) -> list[EndpointEvent]:
    return [EndpointEvent(kind=Kind.ENDPOINT_DELETED, endpoint_no=no) for no in endpoint_nos]


def circuit_reset(endpoint_no: int, cause: str) -> list[EndpointEvent]:
    """For a circuit that was not closed: to forget the failures of one that is tells nobody anything."""
    return [EndpointEvent(kind=Kind.CIRCUIT_CLOSED, endpoint_no=endpoint_no, cause=cause, by_hand=True)]


def of_lanes(events: Iterable[LaneEvent], *, by_hand: bool = False) -> list[EndpointEvent]:
    return [
        EndpointEvent(
            kind=_OF_LANES[event.kind], endpoint_no=event.endpoint_no, cause=_cause(event, by_hand), by_hand=by_hand
        )
        for event in events
        if event.kind in _OF_LANES
    ]


def _cause(event: LaneEvent, by_hand: bool) -> str:
    """An organization may pass on to its customers what it is told."""
    return event.cause if by_hand else redaction.cause(event.cause)


def of_results(results: Iterable[Result]) -> list[DeliveryEvent]:
    return [_turn(result, kind) for result in results if (kind := _kind(result)) is not None]


def recovers(result: Result) -> bool:
    """Delivered after it had been failing, or after it was dead and was replayed."""
    job = result.job
    replayed = job.trigger == _MANUAL and job.sent > job.attempts
    return (job.sent >= FAILING or replayed) and isinstance(result.judgement.verdict, Delivered)


def _kind(result: Result) -> Kind | None:
    match result.judgement.verdict:
        case Dead():
            return Kind.ATTEMPT_EXHAUSTED
        case Retry():
            return Kind.ATTEMPT_FAILING if result.job.sent + 1 == FAILING else None
        case Delivered():
            return Kind.ATTEMPT_RECOVERED if recovers(result) else None


def _turn(result: Result, kind: Kind) -> DeliveryEvent:
    job, sent, verdict = result.job, result.sent, result.judgement.verdict
    return DeliveryEvent(
        kind=kind,
        endpoint_no=job.endpoint_no,
        delivery_id=job.delivery_id,
        message_id=job.message_id,
        accepted_at=job.accepted_at,
        sent=job.sent + 1,
        at=job.claimed_at,
        reason=verdict.reason if isinstance(verdict, Dead) else None,
        last=LastAttempt(id=result.attempt_id, response_status_code=sent.status or 0, timestamp=sent.started_at),
    )


# ── the event ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Subject(Struct, frozen=True, kw_only=True):
    """Whom it happened to, as it is now. Only those have one whose organization listens."""

    org_id: str
    app_id: str
    app_uid: str | None
    endpoint_id: str
    endpoint_uid: str | None
    revision: int  # of the endpoint
    epoch: int  # of its lane
    failing_since: datetime | None


class Known(Struct, frozen=True, kw_only=True):
    """What a `DeliveryEvent` does not carry."""

    event_ids: Mapping[str, str | None] = {}  # by message
    traces: Mapping[str, str | None] = {}  # by message
    last: Mapping[int, LastAttempt] = {}  # by delivery


def room(org_id: str | None, max_payload: int) -> int:
    """How long the payload of an outbox row may be. A deployment's limit is for its publishers, not for what it is told."""
    return max(max_payload, LONGEST) if org_id == MANAGEMENT else max_payload


class EndpointData(Struct, frozen=True, kw_only=True, rename="camel"):
    app_id: str
    app_uid: str | None
    endpoint_id: str
    endpoint_uid: str | None


class CauseData(EndpointData, frozen=True, kw_only=True, rename="camel"):
    cause: str | None


class DisabledData(CauseData, frozen=True, kw_only=True, rename="camel"):
    fail_since: datetime | None
    trigger: str  # manual | automatic


class AttemptData(EndpointData, frozen=True, kw_only=True, rename="camel"):
    msg_id: str
    msg_event_id: str | None
    last_attempt: LastAttempt | None  # None: it died before any was made


class ExhaustedData(AttemptData, frozen=True, kw_only=True, rename="camel"):
    reason: Reason
    dead_letter_id: str


class BatchData(EndpointData, frozen=True, kw_only=True, rename="camel"):
    count: int
    note: str | None


class Event(Struct, frozen=True, kw_only=True):
    """A row of the outbox."""

    org_id: str  # who is told
    kind: Kind
    event_id: str  # the same change has the same one
    payload: bytes
    trace: str | None  # of the message that it is about


def told(notes: Iterable[Note], subjects: Mapping[int, Subject], known: Known) -> list[Event]:
    """The events, in the order of what happened; those whose organization does not listen are left out."""
    return [_event(note, subject, known) for note in notes if (subject := subjects.get(note.endpoint_no)) is not None]


def of_deliveries(notes: Iterable[Note], subjects: Mapping[int, Subject]) -> list[DeliveryEvent]:
    """Those of which more must be known."""
    return [note for note in notes if isinstance(note, DeliveryEvent) and note.endpoint_no in subjects]


def without_attempt(turns: Sequence[DeliveryEvent]) -> list[DeliveryEvent]:
    """Those whose last attempt is to be looked up."""
    return [turn for turn in turns if turn.last is None and turn.sent]


def _event(note: Note, subject: Subject, known: Known) -> Event:
    who = EndpointData(
        app_id=subject.app_id,
        app_uid=subject.app_uid,
        endpoint_id=subject.endpoint_id,
        endpoint_uid=subject.endpoint_uid,
    )
    payload = msgspec.json.encode({"type": note.kind, "data": _data(note, who, subject, known)})
    return Event(
        org_id=subject.org_id,
        kind=note.kind,
        event_id=f"{note.kind}.{_key(note, subject)}",
        payload=payload,
        trace=known.traces.get(note.message_id) if isinstance(note, DeliveryEvent) else None,
    )


def _data(note: Note, who: EndpointData, subject: Subject, known: Known) -> EndpointData:
    match note:
        case DeliveryEvent():
            return _attempt_data(note, who, known)
        case Batch():
            return BatchData(**asdict(who), count=note.count, note=note.note)
        case EndpointEvent():
            return _endpoint_data(note, who, subject)


def _key(note: Note, subject: Subject) -> str:
    """Each change of an endpoint raises its revision, and each of a circuit its lane's epoch."""
    if isinstance(note, DeliveryEvent):
        return f"{note.delivery_id}.{to_micros(note.at)}"
    if isinstance(note, Batch):
        return f"{note.first}.{to_micros(note.at)}"
    step = subject.epoch if note.kind in (Kind.CIRCUIT_OPENED, Kind.CIRCUIT_CLOSED) else subject.revision
    return f"{subject.endpoint_id}.{step}"


def _endpoint_data(note: EndpointEvent, who: EndpointData, subject: Subject) -> EndpointData:
    if note.kind == Kind.ENDPOINT_DISABLED:
        trigger = "manual" if note.by_hand else "automatic"
        return DisabledData(**asdict(who), cause=note.cause, fail_since=subject.failing_since, trigger=trigger)
    return who if note.cause is None else CauseData(**asdict(who), cause=note.cause)


def _attempt_data(turn: DeliveryEvent, who: EndpointData, known: Known) -> AttemptData:
    data = AttemptData(
        **asdict(who),
        msg_id=turn.message_id,
        msg_event_id=known.event_ids.get(turn.message_id),
        last_attempt=turn.last or known.last.get(turn.delivery_id),
    )
    if turn.reason is None:
        return data
    return ExhaustedData(**asdict(data), reason=turn.reason, dead_letter_id=f"{ids.DEAD_LETTER}{turn.delivery_id}")
