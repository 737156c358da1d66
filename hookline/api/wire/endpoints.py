"""The JSON shapes of endpoints and their lanes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from hookline.api.wire.base import CHANNEL, NAMED, In, Instant, Out, Policy, Unsupported, doc, fill, policy, values
from hookline.api.wire.tasks import BackgroundTaskOut, task
from hookline.model.actors import ActorKind
from hookline.model.endpoints import Endpoint, EndpointChange, NewEndpoint, OnDeath, Ordering, Scheme, Secret
from hookline.model.lanes import LaneEvent, LaneEventKind, LaneView
from hookline.model.states import Circuit, EndpointStatus
from hookline.rules.redaction import is_sensitive
from hookline.services.endpoint_state import LONGEST_OPEN, Missed

Url = Annotated[str, doc(minLength=1, maxLength=8000)]
Uid = Annotated[str, NAMED]
Description = Annotated[str, doc(maxLength=4096)]
Version = Annotated[int, doc(minimum=1, maximum=65_535)]
EventTypes = Annotated[tuple[Annotated[str, NAMED], ...], doc(minItems=1, maxItems=1000)]
Channels = Annotated[tuple[Annotated[str, CHANNEL], ...], doc(minItems=1, maxItems=10)]
Rate = Annotated[float, doc("Maximum requests per second.", minimum=0.001, maximum=65_535)]
Concurrency = Annotated[int, doc("Maximum requests in flight.", minimum=1, maximum=10_000)]
Key = Annotated[str, Meta(max_length=256)]
Grace = Annotated[int, Meta(ge=0, le=604_800, description="Seconds during which the old secret still signs too.")]
Cause = Annotated[str, doc("The reason. The timeline of the endpoint shows it.", minLength=1, maxLength=500)]


class EndpointFields(In, frozen=True, kw_only=True):
    url: Url | UnsetType = UNSET
    uid: Uid | UnsetType | None = UNSET
    description: Description | UnsetType = UNSET
    version: Version | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    event_types: EventTypes | UnsetType | None = UNSET
    filter_types: EventTypes | UnsetType | None = UNSET  # name of `event_types` in older SDKs
    channels: Channels | UnsetType | None = UNSET
    throttle_rate: Rate | UnsetType | None = UNSET
    rate_limit: Rate | UnsetType | None = UNSET  # name of `throttle_rate` in older SDKs
    metadata: dict[str, str] | UnsetType = UNSET
    concurrency: Concurrency | UnsetType | None = UNSET
    ordering: Ordering | UnsetType = UNSET
    on_death: OnDeath | UnsetType = UNSET
    scheme: Scheme | UnsetType = UNSET
    policy: Policy | UnsetType | None = UNSET


class EndpointPatch(EndpointFields, frozen=True, kw_only=True):
    """A field that is left out stays as it is; null clears it."""

    secret: Annotated[None, doc("Not supported: rotate it.")] = None


class EndpointUpdate(EndpointFields, frozen=True, kw_only=True):
    """The new values of all fields of an endpoint. A field that is left out gets its default. Only uid, version and
    the fields that Svix does not have keep their values if they are left out."""

    url: Url
    description: Description = ""
    disabled: bool = False
    event_types: EventTypes | None = None
    filter_types: EventTypes | None = None
    channels: Channels | None = None
    throttle_rate: Rate | None = None
    rate_limit: Rate | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class EndpointIn(EndpointUpdate, frozen=True, kw_only=True):
    uid: Uid | None = None
    version: Version = 1
    concurrency: Concurrency | None = None
    ordering: Ordering = Ordering.KEY
    on_death: OnDeath = OnDeath.SKIP
    scheme: Scheme = Scheme.STANDARD
    secret: Key | None = None
    headers: dict[str, str] = field(default_factory=dict)
    policy: Policy | None = None


class EndpointBase(Out, frozen=True, kw_only=True):
    """The fields that all responses with an endpoint have."""

    id: str
    uid: str | None
    url: str
    description: str
    disabled: bool
    event_types: tuple[str, ...] | None
    filter_types: tuple[str, ...] | None
    throttle_rate: int | float | None
    rate_limit: int | float | None
    created_at: Instant
    updated_at: Instant


class EndpointOut(EndpointBase, frozen=True, kw_only=True):
    """An endpoint, without its secret and custom headers."""

    version: int
    status: str
    status_reason: str | None
    channels: tuple[str, ...] | None
    concurrency: int | None
    ordering: Ordering
    on_death: OnDeath
    scheme: Scheme
    metadata: dict[str, str]
    policy: Policy | None


def new_endpoint(given: Any) -> NewEndpoint:
    """Return the new endpoint that a request describes. The routes of operational webhooks use this function too."""
    status = EndpointStatus.DISABLED if given.disabled else EndpointStatus.ACTIVE
    secrets = () if given.secret is None else (Secret(key=given.secret),)
    return NewEndpoint(**values(given, EndpointChange), status=status, secrets=secrets)


def endpoint_change(given: In) -> EndpointChange:
    """Return the change of an endpoint that a request describes. The change does not include status and secrets."""
    return EndpointChange(**values(given, EndpointChange))


def endpoint(found: Endpoint) -> EndpointOut:
    return fill(
        EndpointOut,
        found,
        disabled=found.status == EndpointStatus.DISABLED,
        status=found.status.name.lower(),
        filter_types=found.event_types,
        throttle_rate=rate(found.throttle_rate),
        rate_limit=rate(found.throttle_rate),
        policy=policy(found.policy),
    )


def rate(found: float | None) -> int | float | None:
    """Return the rate, as an integer if it is a whole number, because typed clients expect an integer."""
    return int(found) if found is not None and found.is_integer() else found


# ── secret, headers, example ──────────────────────────────────────────────────────────────────────────────────────


class EndpointSecretOut(Out, frozen=True, kw_only=True):
    """The key that verifies signatures: the secret itself, or the public key of an Ed25519 pair."""

    key: str


class EndpointSecretRotateIn(In, frozen=True, kw_only=True):
    key: Key | None = None
    grace_period_seconds: Grace | None = None


class EndpointHeadersIn(In, frozen=True, kw_only=True):
    headers: dict[str, str]


class EndpointHeadersPatchIn(In, frozen=True, kw_only=True):
    """Headers to change. Other headers stay as they are. A header is removed if its value is null, or if its name
    is in `deleteHeaders` and not in `headers`."""

    headers: dict[str, str | None]
    delete_headers: tuple[str, ...] | None = None  # names of headers to remove, as Svix's SDKs send them

    def changes(self) -> dict[str, str | None]:
        return dict.fromkeys(self.delete_headers or ()) | self.headers


class EndpointHeadersOut(Out, frozen=True, kw_only=True):
    """Headers with their values. Of sensitive headers, only the names are shown."""

    headers: dict[str, str]
    sensitive: list[str]


def endpoint_headers(headers: dict[str, str]) -> EndpointHeadersOut:
    return EndpointHeadersOut(
        headers={name: value for name, value in headers.items() if not is_sensitive(name)},
        sensitive=[name for name in headers if is_sensitive(name)],
    )


class EventExampleIn(In, frozen=True, kw_only=True):
    event_type: Annotated[str, NAMED]
    example_index: Annotated[Literal[0] | None, doc("Only 0: each event type has one example.")] = None
    payload: Unsupported = None


# ── lanes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class CauseIn(In, frozen=True, kw_only=True):
    cause: Cause | None = None


class LaneOut(Out, frozen=True, kw_only=True):
    endpoint_id: str
    app_id: str
    url: str
    status: str
    circuit: str
    backlog: int
    oldest_due_at: Instant | None
    failures: int
    failing_since: Instant | None
    next_probe_at: Instant | None
    held_until: Instant | None
    pace: Annotated[int | float | None, doc("Requests per second after a 429 response; null means no limit.")]
    slowed_at: Annotated[Instant | None, doc("Time of the last 429 response that lowered the pace.")]
    last_error: str | None


def lane(view: LaneView) -> LaneOut:
    shown = view.lane
    return fill(
        LaneOut,
        view,
        shown,
        status=shown.status.name.lower(),
        circuit=shown.circuit.name.lower(),
        backlog=view.depth,
        oldest_due_at=view.oldest_due,
        next_probe_at=shown.probe_at if shown.circuit == Circuit.OPEN else None,
        pace=rate(shown.pace),
    )


class ActorOut(Out, frozen=True, kw_only=True):
    kind: ActorKind
    name: Annotated[
        str | None, doc("The name of the API key. A token of an application sees only the names of its own keys.")
    ]


class LaneEventOut(Out, frozen=True, kw_only=True):
    at: Instant
    kind: LaneEventKind
    cause: str
    actor: Annotated[ActorOut | None, doc("Who caused the event. Null means Hookline itself.")]


def lane_event(event: LaneEvent, *, named: bool = True) -> LaneEventOut:
    """Return the JSON of a lane event. Without `named`, the names of the organization's API keys are left out."""
    by = event.actor
    shown = None
    if by is not None:
        own = named or by.kind == ActorKind.APPLICATION_KEY
        shown = ActorOut(kind=by.kind, name=by.name if own else None)
    return LaneEventOut(at=event.at, kind=event.kind, cause=event.cause, actor=shown)


class EndpointHealthOut(LaneOut, frozen=True, kw_only=True):
    """The delivery state of an endpoint, and the latest events of its timeline."""

    status_reason: str | None
    in_flight: int
    window: int | None  # maximum requests in flight while the endpoint recovers
    concurrency: int | None
    throttle_rate: int | float | None
    next_start_at: Instant | None  # null: unknown until the endpoint is resumed, or a request in flight ends
    trips: int  # how often the circuit opened since it was last closed
    opened_at: Instant | None
    events: list[LaneEventOut]  # the latest events of the timeline, newest first


# ── changes of the delivery state ────────────────────────────────────────────────────────────────────────────────

Seconds = Annotated[float, Meta(gt=0, le=LONGEST_OPEN.total_seconds(), description="Duration, instead of `until`.")]


class OpenIn(CauseIn, frozen=True, kw_only=True):
    until: Annotated[Instant, doc("Send nothing before this time, and then one probe.")] | None = None
    seconds: Seconds | None = None


class ResumeIn(CauseIn, frozen=True, kw_only=True):
    replay_missing: Annotated[bool, doc("Also send the messages that the endpoint missed while disabled.")] = False


class MissedOut(Out, frozen=True, kw_only=True):
    """Messages that match the endpoint and have no delivery to it. `replay-missing` with this `since` sends them."""

    since: Instant
    messages: Annotated[int | None, doc("Number of messages; null if there are too many to count.")]
    task: Annotated[BackgroundTaskOut | None, doc("The task that sends these messages, if the request asked for it.")]


class ResumedOut(EndpointHealthOut, frozen=True, kw_only=True):
    """The delivery state after the resume, and the messages that the endpoint missed."""

    missed: Annotated[MissedOut | None, doc("Null if the endpoint was not disabled. A paused one misses nothing.")]


def resumed(health: EndpointHealthOut, lost: Missed | None) -> ResumedOut:
    return fill(ResumedOut, health, missed=missed(lost))


def missed(lost: Missed | None) -> MissedOut | None:
    if lost is None:
        return None
    return fill(MissedOut, lost, task=None if lost.task is None else task(lost.task))
