"""Operational webhooks: events that tell an organization about changes of its own endpoints and deliveries.

An event is an outbox row, written in the same transaction as the change that it reports. So no event is lost and none
is false. An endpoint that receives events is an ordinary endpoint of the management organization. Hookline creates this
organization for itself. It has one application for each organization that receives events, and one for alerts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec import Struct

from hookline import ids
from hookline.clock import to_micros
from hookline.model.lanes import LaneEvent, LaneEventKind
from hookline.model.states import Reason
from hookline.model.verdicts import Dead, Delivered, Result, Retry
from hookline.rules import redaction

# Id of the management organization, the same as in Svix's server. Changes of this organization's own endpoints cause no
# events, because each event would cause another one.
MANAGEMENT = "org_00000000000SvixManagement00"
ALERTS = "hookline.alerts"  # uid of the application that delivers alerts; it belongs to the management organization
LONGEST = 64 * 1024  # maximum size of an event in bytes; real events are smaller
FAILING = 4  # number of the failed attempt that causes `message.attempt.failing`, as in Svix

_MANUAL = 1  # value of `trigger` for replays, resends and test messages


class Kind(StrEnum):
    """The event type. The names are Svix's; types that Svix does not have follow the same style."""

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
    Kind.ENDPOINT_DISABLED: "An endpoint was disabled: by a person, or because it was gone (410) or failed for a long time.",
    Kind.ENDPOINT_ENABLED: "A disabled endpoint was enabled.",
    Kind.ENDPOINT_PAUSED: "An endpoint was paused: by a person, or because too many of its deliveries died.",
    Kind.ENDPOINT_RESUMED: "A paused endpoint was resumed.",
    Kind.CIRCUIT_OPENED: "An endpoint failed repeatedly, or a person opened its circuit. Only probes are sent to it.",
    Kind.CIRCUIT_CLOSED: "An endpoint is healthy again, or its circuit was reset.",
    Kind.ATTEMPT_FAILING: "The fourth attempt of a delivery failed.",
    Kind.ATTEMPT_EXHAUSTED: "A delivery died. It is a dead letter now.",
    Kind.ATTEMPT_RECOVERED: "A delivery that had been failing, or was replayed, succeeded.",
    Kind.DEAD_REPLAYED: "Dead letters of an endpoint were replayed. They are deliveries again.",
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


# ── changes to report ─────────────────────────────────────────────────────────────────────────────────────────────


class EndpointEvent(Struct, frozen=True, kw_only=True):
    """A change of an endpoint."""

    kind: Kind
    endpoint_no: int
    cause: str | None = None
    by_hand: bool = False


class LastAttempt(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    response_status_code: int  # 0 means that there was no response
    timestamp: datetime


class DeliveryEvent(Struct, frozen=True, kw_only=True):
    """A change of a delivery."""

    kind: Kind
    endpoint_no: int
    delivery_id: int
    message_id: str
    accepted_at: datetime
    sent: int  # number of attempts so far
    at: datetime  # time of the change; together with the delivery id it identifies the event
    reason: Reason | None = None  # set if the delivery died
    last: LastAttempt | None = None  # if None and `sent` > 0, the store must read the last attempt


class Batch(Struct, frozen=True, kw_only=True):
    """A change of several dead letters of one endpoint."""

    kind: Kind
    endpoint_no: int
    count: int
    first: int  # lowest delivery id in the batch; together with `at` it identifies the event
    at: datetime
    note: str | None = None


Note = EndpointEvent | DeliveryEvent | Batch


def of_endpoints(kind: Kind, endpoint_nos: Iterable[int]) -> list[EndpointEvent]:
    return [EndpointEvent(kind=kind, endpoint_no=no) for no in endpoint_nos]


def circuit_reset(endpoint_no: int, cause: str) -> list[EndpointEvent]:
    """Return the event for a reset of a circuit that was not closed. A reset of a closed circuit causes no event."""
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
    """Return the cause without operator-only details, because an organization may show events to its customers."""
    return event.cause if by_hand else redaction.cause(event.cause)


def of_results(results: Iterable[Result]) -> list[DeliveryEvent]:
    return [_delivery_event(result, kind) for result in results if (kind := _kind(result)) is not None]


def recovers(result: Result) -> bool:
    """Return whether the delivery succeeded after several failures, or after it was dead and was replayed."""
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


def _delivery_event(result: Result, kind: Kind) -> DeliveryEvent:
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


# ── events ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Subject(Struct, frozen=True, kw_only=True):
    """The changed endpoint and its application. The store reads a subject only if the organization receives operational
    webhooks."""

    org_id: str
    app_id: str
    app_uid: str | None
    endpoint_id: str
    endpoint_uid: str | None
    revision: int  # the endpoint's revision
    epoch: int  # the epoch of the endpoint's lane
    failing_since: datetime | None


class Known(Struct, frozen=True, kw_only=True):
    """Details that a `DeliveryEvent` does not have. The store reads them."""

    event_ids: Mapping[str, str | None] = {}  # event id of each message
    traces: Mapping[str, str | None] = {}  # trace context of each message
    last: Mapping[int, LastAttempt] = {}  # last attempt of each delivery


def room(org_id: str | None, max_payload: int) -> int:
    """Return the maximum payload size of an outbox row in bytes. A row of the management organization is an operational
    event or an alert. It may have `LONGEST` bytes even if the deployment's limit `max_payload` is lower."""
    return max(max_payload, LONGEST) if org_id == MANAGEMENT else max_payload


class Event(Struct, frozen=True, kw_only=True):
    """An operational event as an outbox row."""

    org_id: str  # the organization that receives the event
    kind: Kind
    event_id: str  # derived from the change, so that a repeated event has the same id
    payload: bytes
    trace: str | None  # trace context of the message that the event is about


def to_events(notes: Iterable[Note], subjects: Mapping[int, Subject], known: Known) -> list[Event]:
    """Return the events in the order of the changes, without those whose organization receives no operational
    webhooks."""
    return [_event(note, subject, known) for note in notes if (subject := subjects.get(note.endpoint_no)) is not None]


def of_deliveries(notes: Iterable[Note], subjects: Mapping[int, Subject]) -> list[DeliveryEvent]:
    """Return the changes of deliveries that become events. The store must read more details for them."""
    return [note for note in notes if isinstance(note, DeliveryEvent) and note.endpoint_no in subjects]


def without_attempt(events: Sequence[DeliveryEvent]) -> list[DeliveryEvent]:
    """Return the events that lack the last attempt of their delivery although it had attempts. The store must read
    these attempts."""
    return [event for event in events if event.last is None and event.sent]


def _event(note: Note, subject: Subject, known: Known) -> Event:
    event_id = f"{note.kind}.{_key(note, subject)}"
    payload = msgspec.json.encode({"type": note.kind, "data": _data(note, subject, known)})
    trace = known.traces.get(note.message_id) if isinstance(note, DeliveryEvent) else None
    return Event(org_id=subject.org_id, kind=note.kind, event_id=event_id, payload=payload, trace=trace)


def _data(note: Note, subject: Subject, known: Known) -> dict[str, object]:
    """Return the `data` object of the payload. `docs/reference/operational-webhooks.md` describes its fields."""
    data: dict[str, object] = {
        "appId": subject.app_id,
        "appUid": subject.app_uid,
        "endpointId": subject.endpoint_id,
        "endpointUid": subject.endpoint_uid,
    }
    match note:
        case DeliveryEvent():
            data["msgId"] = note.message_id
            data["msgEventId"] = known.event_ids.get(note.message_id)
            # None means that the delivery died before its first attempt.
            data["lastAttempt"] = note.last or known.last.get(note.delivery_id)
            if note.reason is not None:
                data |= {"reason": note.reason, "deadLetterId": f"{ids.DEAD_LETTER}{note.delivery_id}"}
        case Batch():
            data |= {"count": note.count, "note": note.note}
        case EndpointEvent(kind=Kind.ENDPOINT_DISABLED):
            trigger = "manual" if note.by_hand else "automatic"
            data |= {"cause": note.cause, "failSince": subject.failing_since, "trigger": trigger}
        case EndpointEvent() if note.cause is not None:
            data["cause"] = note.cause
    return data


def _key(note: Note, subject: Subject) -> str:
    """Return the part of the event id that identifies the change.

    Each change of an endpoint raises its revision, and each change of a circuit raises its lane's epoch.
    """
    if isinstance(note, DeliveryEvent):
        return f"{note.delivery_id}.{to_micros(note.at)}"
    if isinstance(note, Batch):
        return f"{note.first}.{to_micros(note.at)}"
    step = subject.epoch if note.kind in (Kind.CIRCUIT_OPENED, Kind.CIRCUIT_CLOSED) else subject.revision
    return f"{subject.endpoint_id}.{step}"
