"""The JSON shapes, in and out: camelCase, as the Svix API has them. The command line's `--json` prints the same ones."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import asdict

from hookline import ids
from hookline.model import (
    Application,
    Attempt,
    DeadLetter,
    DeadStats,
    Delivery,
    Endpoint,
    EventType,
    LaneEvent,
    LaneView,
    Message,
    Ordering,
    PolicyOverride,
    Scheme,
    Strategy,
    Timing,
)
from hookline.states import Circuit, EndpointStatus, ErrorKind, Reason


class In(Struct, frozen=True, kw_only=True, rename="camel"):
    """Unknown fields are ignored: newer SDKs may send more than we know."""


class Out(Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class ListOut(Out, frozen=True, kw_only=True):
    data: list[Any]
    done: bool
    iterator: str | None = None
    prev_iterator: str | None = None


class Policy(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """A retry policy's override. A misspelt field is refused: it would silently change nothing."""

    strategy: Strategy | None = None
    base: float | None = None
    factor: float | None = None
    cap: float | None = None
    max_attempts: int | None = None
    max_age: float | None = None
    schedule: tuple[float, ...] | None = None
    retry_after_cap: float | None = None

    def override(self) -> PolicyOverride:
        return PolicyOverride(**asdict(self))


def policy(found: PolicyOverride | None) -> Policy | None:
    return None if found is None else Policy(**asdict(found))


# ── applications ──────────────────────────────────────────────────────────────────────────────────────────────────


class ApplicationIn(In, frozen=True, kw_only=True):
    name: str
    uid: str | None = None
    throttle_rate: int | None = None
    rate_limit: int | None = None  # what older SDKs call it
    metadata: dict[str, str] = {}


class ApplicationOut(Out, frozen=True, kw_only=True):
    id: str
    uid: str | None
    name: str
    throttle_rate: int | None
    rate_limit: int | None
    metadata: dict[str, str]
    created_at: datetime
    updated_at: datetime


def application(app: Application) -> ApplicationOut:
    return ApplicationOut(
        id=app.id,
        uid=app.uid,
        name=app.name,
        throttle_rate=app.throttle_rate,
        rate_limit=app.throttle_rate,
        metadata=app.metadata,
        created_at=app.created_at,
        updated_at=app.updated_at,
    )


# ── event types ───────────────────────────────────────────────────────────────────────────────────────────────────


class EventTypeOut(Out, frozen=True, kw_only=True):
    name: str
    description: str
    archived: bool
    deprecated: bool
    created_at: datetime
    updated_at: datetime


def event_type(found: EventType) -> EventTypeOut:
    return EventTypeOut(
        name=found.name,
        description=found.description,
        archived=found.archived,
        deprecated=found.deprecated,
        created_at=found.created_at,
        updated_at=found.updated_at,
    )


# ── endpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────


class EndpointIn(In, frozen=True, kw_only=True):
    url: str
    uid: str | None = None
    description: str = ""
    version: int = 1
    disabled: bool = False
    event_types: tuple[str, ...] | None = None
    filter_types: tuple[str, ...] | None = None  # what older SDKs call it
    channels: tuple[str, ...] | None = None
    throttle_rate: float | None = None
    rate_limit: float | None = None
    concurrency: int | None = None
    ordering: Ordering = Ordering.NONE
    scheme: Scheme = Scheme.STANDARD
    secret: str | None = None
    headers: dict[str, str] = {}
    metadata: dict[str, str] = {}
    policy: Policy | None = None

    def __repr__(self) -> str:
        """Without the secret, and without the values of the headers: receivers are let in by them."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        fields["secret"] = None if self.secret is None else "…"
        fields["headers"] = dict.fromkeys(self.headers, "…")
        return f"EndpointIn({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


class EndpointOut(Out, frozen=True, kw_only=True):
    """Without secret and custom headers: they are never part of a listing."""

    id: str
    uid: str | None
    url: str
    description: str
    version: int
    disabled: bool
    status: str
    status_reason: str | None
    event_types: tuple[str, ...] | None
    filter_types: tuple[str, ...] | None
    channels: tuple[str, ...] | None
    throttle_rate: float | None
    rate_limit: float | None
    concurrency: int | None
    ordering: Ordering
    scheme: Scheme
    metadata: dict[str, str]
    policy: Policy | None
    created_at: datetime
    updated_at: datetime


def endpoint(found: Endpoint) -> EndpointOut:
    return EndpointOut(
        id=found.id,
        uid=found.uid,
        url=found.url,
        description=found.description,
        version=found.version,
        disabled=found.status == EndpointStatus.DISABLED,
        status=found.status.name.lower(),
        status_reason=found.status_reason,
        event_types=found.event_types,
        filter_types=found.event_types,
        channels=found.channels,
        throttle_rate=found.throttle_rate,
        rate_limit=found.throttle_rate,
        concurrency=found.concurrency,
        ordering=found.ordering,
        scheme=found.scheme,
        metadata=found.metadata,
        policy=policy(found.policy),
        created_at=found.created_at,
        updated_at=found.updated_at,
    )


class LaneOut(Out, frozen=True, kw_only=True):
    endpoint_id: str
    app_id: str
    url: str
    status: str
    circuit: str
    backlog: int
    oldest_due_at: datetime | None
    failures: int
    failing_since: datetime | None
    next_probe_at: datetime | None
    held_until: datetime | None
    last_error: str | None


def lane(view: LaneView) -> LaneOut:
    shown = view.lane
    return LaneOut(
        endpoint_id=view.endpoint_id,
        app_id=view.app_id,
        url=view.url,
        status=shown.status.name.lower(),
        circuit=shown.circuit.name.lower(),
        backlog=view.depth,
        oldest_due_at=view.oldest_due,
        failures=shown.failures,
        failing_since=shown.failing_since,
        next_probe_at=shown.probe_at if shown.circuit == Circuit.OPEN else None,
        held_until=shown.held_until,
        last_error=view.last_error,
    )


class LaneEventOut(Out, frozen=True, kw_only=True):
    at: datetime
    kind: str
    cause: str


def lane_event(event: LaneEvent) -> LaneEventOut:
    return LaneEventOut(at=event.at, kind=event.kind.value, cause=event.cause)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────────


class MessageIn(In, frozen=True, kw_only=True):
    event_type: str
    payload: Raw  # the caller's own bytes: these are stored, signed and sent
    event_id: str | None = None
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    policy: Policy | None = None


class MessageOut(Out, frozen=True, kw_only=True):
    id: str
    event_id: str | None
    event_type: str
    payload: Raw | UnsetType | None
    channels: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    timestamp: datetime
    ordering_key: str | None = None
    deliver_at: datetime | None = None


def message(found: Message, *, with_payload: bool = True) -> MessageOut:
    return MessageOut(
        id=found.id,
        event_id=found.event_id,
        event_type=found.event_type,
        payload=_payload(found.payload) if with_payload else UNSET,
        channels=found.channels,
        tags=found.tags,
        timestamp=found.created_at,
        ordering_key=found.ordering_key,
        deliver_at=found.deliver_at,
    )


def _payload(payload: bytes | None) -> Raw | None:
    return None if payload is None else Raw(payload)


class DeliveryOut(Out, frozen=True, kw_only=True):
    endpoint_id: str
    state: str
    attempts: int
    sent: int
    next_attempt_at: datetime | None
    expires_at: datetime | None
    finished_at: datetime | None
    reason: Reason | None
    detail: str | None
    dead_letter_id: str | None


def delivery(found: Delivery) -> DeliveryOut:
    waiting = found.state.name in ("PENDING", "SCHEDULED")
    return DeliveryOut(
        endpoint_id=found.endpoint_id,
        state=found.state.name.lower(),
        attempts=found.attempts,
        sent=found.sent,
        next_attempt_at=found.due_at if waiting else None,
        expires_at=found.expires_at,
        finished_at=found.finished_at,
        reason=found.reason,
        detail=found.detail,
        dead_letter_id=f"{ids.DEAD_LETTER}{found.id}" if found.state.name in ("DEAD", "RESOLVED") else None,
    )


class AttemptOut(Out, frozen=True, kw_only=True):
    id: str
    endpoint_id: str
    number: int
    trigger: str
    outcome: str
    probe: bool
    started_at: datetime
    status_code: int | None
    error: ErrorKind | None
    detail: str
    address: str
    response_headers: dict[str, str]
    response: str  # text where it is UTF-8, otherwise base64
    response_base64: bool
    truncated: bool
    micros: Timing


def attempt(found: Attempt) -> AttemptOut:
    text, encoded = _text(found.response_body)
    return AttemptOut(
        id=found.id,
        endpoint_id=found.endpoint_id,
        number=found.number,
        trigger="manual" if found.trigger else "scheduled",
        outcome=found.outcome,
        probe=found.probe,
        started_at=found.started_at,
        status_code=found.status_code,
        error=found.error,
        detail=found.detail,
        address=found.address,
        response_headers=found.response_headers,
        response=text,
        response_base64=encoded,
        truncated=found.truncated,
        micros=found.timing,
    )


def _text(body: bytes) -> tuple[str, bool]:
    try:
        return body.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), True


# ── dead letters ──────────────────────────────────────────────────────────────────────────────────────────────────


class DeadLetterOut(Out, frozen=True, kw_only=True):
    id: str
    app_id: str
    endpoint_id: str
    endpoint_url: str
    message_id: str
    event_type: str
    reason: Reason
    detail: str
    attempts: int
    sent: int
    accepted_at: datetime
    died_at: datetime
    last_status: int | None
    resolved_at: datetime | None
    note: str | None


def dead_letter(found: DeadLetter) -> DeadLetterOut:
    return DeadLetterOut(
        id=f"{ids.DEAD_LETTER}{found.id}",
        app_id=found.app_id,
        endpoint_id=found.endpoint_id,
        endpoint_url=found.endpoint_url,
        message_id=found.message_id,
        event_type=found.event_type,
        reason=found.reason,
        detail=found.detail,
        attempts=found.attempts,
        sent=found.sent,
        accepted_at=found.accepted_at,
        died_at=found.died_at,
        last_status=found.last_status,
        resolved_at=found.resolved_at,
        note=found.note,
    )


class DeadStatsOut(Out, frozen=True, kw_only=True):
    dead: int
    resolved: int
    by_reason: dict[str, int]
    oldest_at: datetime | None


def dead_stats(found: DeadStats) -> DeadStatsOut:
    return DeadStatsOut(dead=found.dead, resolved=found.resolved, by_reason=found.by_reason, oldest_at=found.oldest)


encode = msgspec.json.Encoder().encode
