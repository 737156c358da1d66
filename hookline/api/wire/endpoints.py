"""Endpoints and their lanes."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from hookline.api.wire.base import In, Out, Policy, policy
from hookline.model import Endpoint, LaneEvent, LaneView, Ordering, Scheme
from hookline.states import Circuit, EndpointStatus


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
    headers: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
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
