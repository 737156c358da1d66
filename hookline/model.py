"""The nouns of the glossary, frozen. Instants are aware datetimes, durations are seconds, payloads are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from hookline.states import Circuit, DeliveryState, EndpointStatus, ErrorKind, Health, Reason

# ── policy ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Strategy(StrEnum):
    FULL_JITTER = "full_jitter"
    DECORRELATED = "decorrelated"
    FIXED = "fixed"


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How long and how often a delivery is tried. The deployment has one; `PolicyOverride` changes parts of it."""

    strategy: Strategy = Strategy.FULL_JITTER
    base: float = 1.0  # seconds
    factor: float = 3.0
    cap: float = 6 * 3600.0
    max_attempts: int = 12
    max_age: float = 24 * 3600.0  # time budget from acceptance, replay or resume on
    schedule: tuple[float, ...] = ()  # delays of the fixed strategy; the last one repeats
    retry_after_cap: float = 3600.0  # the longest Retry-After that is honoured


class PolicyOverride(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Set on an event type, an endpoint or a message; the later wins. Fixed when the delivery is made."""

    strategy: Strategy | None = None
    base: float | None = None
    factor: float | None = None
    cap: float | None = None
    max_attempts: int | None = None
    max_age: float | None = None
    schedule: tuple[float, ...] | None = None
    retry_after_cap: float | None = None


class CircuitPolicy(Struct, frozen=True, kw_only=True):
    threshold: int = 5  # consecutive failures that open it ...
    spread: float = 1.0  # ... when they lie at least this far apart, first to last, in seconds
    cooldown: float = 60.0  # before the first probe; doubles with each failed probe
    cooldown_cap: float = 3600.0
    recovery_window: int = 2  # after a good probe: requests in flight, doubling each `recovery_step` ...
    recovery_step: float = 2.5  # four of them are ten seconds at an eighth of the full window, or less
    recovery_rate: float = 10.0  # ... with at most window * this many starts a second
    recovery_done: int = 128  # the circuit is closed when the window would pass this


# ── catalogue ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Organization(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    created_at: datetime
    tokens_valid_after: datetime | None = None


class Application(Struct, frozen=True, kw_only=True):
    no: int  # the database's own key; never shown
    id: str
    org_id: str
    name: str
    created_at: datetime
    updated_at: datetime
    uid: str | None = None
    throttle_rate: int | None = None
    metadata: dict[str, str] = {}
    tokens_valid_after: datetime | None = None


class EventType(Struct, frozen=True, kw_only=True):
    org_id: str
    name: str
    created_at: datetime
    updated_at: datetime
    description: str = ""
    archived: bool = False
    deprecated: bool = False
    schemas: dict[str, Any] | None = None
    feature_flags: tuple[str, ...] = ()
    group_name: str | None = None
    policy: PolicyOverride | None = None
    validated: bool = False  # payloads must fit the newest schema


class Scheme(StrEnum):
    """Names of the signature headers and what is signed."""  # `signing.py` has the details

    STANDARD = "standard"
    SVIX = "svix"
    HEX = "hex"
    GITHUB = "github"
    STRIPE = "stripe"


class Ordering(StrEnum):
    """What is sent to an endpoint one at a time, in the order in which it was accepted."""

    NONE = "none"  # nothing: keys are ignored
    KEY = "key"  # messages with the same ordering key
    FIFO = "fifo"  # all of them


class OnDeath(StrEnum):
    """What becomes of those that stand in line behind a delivery that died."""

    SKIP = "skip"  # they go on
    BLOCK = "block"  # they wait until it is replayed or resolved


class Secret(Struct, frozen=True, kw_only=True):
    key: str  # whsec_<base64> (HMAC) or whsk_<base64> (Ed25519)
    expires_at: datetime | None = None  # None: current; else it still signs until then, beside its successor

    def __repr__(self) -> str:
        return f"Secret(key='{self.key[:6]}…', expires_at={self.expires_at!r})"


class Veiled(Struct, frozen=True, kw_only=True):
    """Its text has the names of the custom headers and not their values: receivers are let in by them."""

    def __repr__(self) -> str:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        if isinstance(headers := fields["headers"], dict):
            fields["headers"] = dict.fromkeys(headers, "…")
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


class Endpoint(Veiled, frozen=True, kw_only=True):
    no: int
    id: str
    app_no: int
    app_id: str
    org_id: str
    url: str
    created_at: datetime
    updated_at: datetime
    uid: str | None = None
    description: str = ""
    version: int = 1
    event_types: tuple[str, ...] | None = None  # None: all
    channels: tuple[str, ...] | None = None  # None: messages on any channel or none
    status: EndpointStatus = EndpointStatus.ACTIVE
    status_reason: str | None = None
    throttle_rate: float | None = None  # starts a second
    concurrency: int | None = None  # most requests in flight
    ordering: Ordering = Ordering.KEY
    on_death: OnDeath = OnDeath.SKIP
    scheme: Scheme = Scheme.STANDARD
    secrets: tuple[Secret, ...] = ()  # the current one first
    headers: dict[str, str] = {}
    metadata: dict[str, str] = {}
    policy: PolicyOverride | None = None
    revision: int = 1  # grows with each change; workers cache endpoints by it


class NewApplication(Struct, frozen=True, kw_only=True):
    name: str
    uid: str | None = None
    throttle_rate: int | None = None
    metadata: dict[str, str] = {}


class ApplicationChange(Struct, frozen=True, kw_only=True):
    """Fields that are UNSET stay as they are."""

    name: str | UnsetType = UNSET
    uid: str | UnsetType | None = UNSET
    throttle_rate: int | UnsetType | None = UNSET
    metadata: dict[str, str] | UnsetType = UNSET


class NewEndpoint(Veiled, frozen=True, kw_only=True):
    """What a caller gives. Checked by `catalogue.check_endpoint` before it comes to the store."""

    url: str
    uid: str | None = None
    description: str = ""
    version: int = 1
    event_types: tuple[str, ...] | None = None
    channels: tuple[str, ...] | None = None
    status: EndpointStatus = EndpointStatus.ACTIVE
    throttle_rate: float | None = None
    concurrency: int | None = None
    ordering: Ordering = Ordering.KEY
    on_death: OnDeath = OnDeath.SKIP
    scheme: Scheme = Scheme.STANDARD
    secrets: tuple[Secret, ...] = ()
    headers: dict[str, str] = {}
    metadata: dict[str, str] = {}
    policy: PolicyOverride | None = None


class EndpointChange(Veiled, frozen=True, kw_only=True):
    """Fields that are UNSET stay as they are."""

    url: str | UnsetType = UNSET
    uid: str | UnsetType | None = UNSET
    description: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    event_types: tuple[str, ...] | UnsetType | None = UNSET
    channels: tuple[str, ...] | UnsetType | None = UNSET
    throttle_rate: float | UnsetType | None = UNSET
    concurrency: int | UnsetType | None = UNSET
    ordering: Ordering | UnsetType = UNSET
    on_death: OnDeath | UnsetType = UNSET
    scheme: Scheme | UnsetType = UNSET
    secrets: tuple[Secret, ...] | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    policy: PolicyOverride | UnsetType | None = UNSET


# ── access ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Scope(StrEnum):
    """What the holder of an API key may do."""

    FULL = "full"
    PUBLISH = "publish"  # accept messages, and nothing else
    READ = "read"


class ApiKey(Struct, frozen=True, kw_only=True):
    """As it is kept: without the key itself, which only its holder has."""

    id: str
    org_id: str
    name: str
    scope: Scope
    hint: str  # the key's last characters
    created_at: datetime
    app_id: str | None = None  # the only application that it reaches; None: all of them
    expires_at: datetime | None = None
    last_used_at: datetime | None = None  # to the minute


class NewApiKey(Struct, frozen=True, kw_only=True):
    name: str
    scope: Scope
    hash: bytes
    hint: str
    app_no: int | None = None
    expires_at: datetime | None = None


class KeptAnswer(Struct, frozen=True, kw_only=True):
    """Where a POST with an idempotency key stands: ours to do, somebody's at it, or answered."""

    request: bytes  # hash of the request that holds the key
    claim: int | None = None  # ours: do the work, and keep its answer under this fence
    status: int | None = None  # None: not answered yet
    response: bytes = b""


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────────


class NewMessage(Struct, frozen=True, kw_only=True):
    """One event to accept. The id is made before COMMIT, so that a lost answer can be looked up."""

    id: str
    app_no: int
    event_type: str
    payload: bytes  # as it came; these bytes are stored, signed and sent
    event_id: str | None = None
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    policy: PolicyOverride | None = None
    trace: str | None = None  # of the publisher: traceparent, and tracestate after a space
    idempotency_key: bytes | None = None  # hash of organization, application, path and key
    idempotency_body: bytes | None = None  # hash of the request body


class IngestStatus(StrEnum):
    ACCEPTED = "accepted"
    REPLAYED = "replayed"  # same idempotency key, same body: `message_id` is the first one's
    KEY_REUSED = "key_reused"  # same idempotency key, another body
    EVENT_ID_TAKEN = "event_id_taken"  # `message_id` is the one that has it
    NO_APPLICATION = "no_application"


class Accepted(Struct, frozen=True, kw_only=True):
    status: IngestStatus
    message_id: str
    created_at: datetime | None = None
    deliveries: int = 0  # how many endpoints it fanned out to


class NewBatch(Struct, frozen=True, kw_only=True):
    """Messages of one application that are accepted in one transaction, under one idempotency key."""

    app_no: int
    messages: tuple[NewMessage, ...]  # without keys of their own
    faults: dict[int, str] = {}  # positions in the caller's list that are no messages, and why: kept with the key
    idempotency_key: bytes | None = None
    idempotency_body: bytes | None = None


class BatchAccepted(Struct, frozen=True, kw_only=True):
    status: IngestStatus  # of the batch as a whole: accepted, replayed or key_reused
    answers: tuple[
        Accepted, ...
    ] = ()  # one for each message, in order; of a batch that is replayed, the first ones again
    faults: dict[int, str] = {}  # likewise


class Message(Struct, frozen=True, kw_only=True):
    seq: int  # the order in which the database accepted it
    id: str
    app_no: int
    app_id: str
    event_type: str
    payload: bytes | None  # None: expunged, taken by retention, or not asked for
    created_at: datetime
    event_id: str | None = None
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    policy: PolicyOverride | None = None
    trace: str | None = None  # of the publisher: traceparent, and tracestate after a space
    size: int | None = None  # of the payload, in bytes; None: it is gone


class MessageFilter(Struct, frozen=True, kw_only=True):
    """All of the given fields must match."""

    event_types: tuple[str, ...] | None = None  # one of them
    channel: str | None = None
    tag: str | None = None
    after: datetime | None = None
    before: datetime | None = None


class FoundFilter(MessageFilter, frozen=True, kw_only=True):
    """For people who search."""

    app_no: int | None = None  # None: every application of the organization
    ref: str | None = None  # a message's id, or an event's
    state: str | None = None  # delivered (everywhere), open (somewhere), dead (somewhere), none (no endpoint matched)


class Found(Struct, frozen=True, kw_only=True):
    message: Message
    states: dict[str, int]  # its deliveries: pending, scheduled, queued, delivering, delivered, dead, resolved


# ── deliveries ────────────────────────────────────────────────────────────────────────────────────────────────────


class Delivery(Struct, frozen=True, kw_only=True):
    """One message to one endpoint, wherever it is kept: open, done or dead."""

    id: int
    state: DeliveryState
    app_no: int
    endpoint_no: int
    endpoint_id: str
    message_id: str
    event_type: str
    attempts: int  # that count against the budget
    sent: int  # all attempts ever made, probes and those before a replay included
    accepted_at: datetime
    due_at: datetime | None = None
    expires_at: datetime | None = None
    finished_at: datetime | None = None
    reason: Reason | None = None
    detail: str | None = None


class Job(Struct, frozen=True, kw_only=True):
    """A delivery that this worker has leased, with all that is needed to send it."""

    delivery_id: int
    claim: int  # the fence: every later write names it
    message_id: str
    app_no: int
    endpoint_no: int
    revision: int  # of the endpoint; see `Store.endpoints_for`
    event_type: str
    payload: bytes
    attempts: int
    sent: int
    accepted_at: datetime
    expires_at: datetime
    claimed_at: datetime  # the database's clock
    lease_until: datetime
    due_at: datetime
    epoch: int  # of the lane when it was claimed
    counted: bool  # adds to `lane.in_flight`
    probe: bool
    trigger: int  # 0 scheduled, 1 manual
    policy: PolicyOverride | None = None
    last_delay: float = 0.0  # of the retry that led here; decorrelated jitter grows from it
    ordering_key: str | None = None  # of the queue that waits behind it
    trace: str | None = None  # of the message


class AppShare(Struct, frozen=True, kw_only=True):
    """What the applications hold of a worker that claims, and may hold."""

    held: Mapping[int, int]  # requests in flight, by application
    most: float  # part of its slots that one may hold alone; 1: there is no limit
    waiting: int = 0  # lanes that were passed over before


class ClaimBatch(Struct, frozen=True, kw_only=True):
    jobs: list[Job]
    now: datetime
    next_at: datetime | None  # the earliest token that is left, only looked up when there are no jobs; it may be due
    crowded: tuple[int, ...] = ()  # endpoints that were passed over: they hold their whole share of this worker
    crowded_apps: dict[int, int] = {}  # or their application does: its number by endpoint


class Timing(Struct, frozen=True, kw_only=True):
    """Microseconds from the start of the attempt to the end of each phase; 0 where it did not happen."""

    dns: int = 0
    connect: int = 0
    tls: int = 0
    first_byte: int = 0
    total: int = 0


class Sent(Struct, frozen=True, kw_only=True):
    """What came of one HTTP request: either a status, or an error and what kind."""

    status: int | None = None
    error: ErrorKind | None = None
    detail: str = ""  # for people; never a secret
    headers: dict[str, str] = {}  # those of interest, names in lower case
    body: bytes = b""
    truncated: bool = False
    address: str = ""  # that was dialled
    started_at: datetime
    timing: Timing = Timing()
    untouched: bool = False  # it failed before any byte of the request was sent


class Delivered(Struct, frozen=True, kw_only=True, tag=True):
    pass


class Retry(Struct, frozen=True, kw_only=True, tag=True):
    at: datetime
    spends: bool = True  # it counts against the attempt budget
    fresh: bool = False  # at once, on a new connection
    delay: float = 0.0  # the jittered delay; decorrelated jitter grows from it


class Dead(Struct, frozen=True, kw_only=True, tag=True):
    reason: Reason
    detail: str


Verdict = Delivered | Retry | Dead


class Judgement(Struct, frozen=True, kw_only=True):
    verdict: Verdict
    health: Health
    hold_until: datetime | None = None  # Retry-After of a 429 or 503 holds the whole lane
    gone: bool = False  # 410: the endpoint is to be disabled
    slow_down: bool = False  # it says "too fast", not "broken"


class Result(Struct, frozen=True, kw_only=True):
    """A job, what came of it, and what follows: the input of `Store.record`."""

    job: Job
    attempt_id: str
    sent: Sent
    judgement: Judgement
    ended_at: datetime | None = None  # when the answer was in, by the database's clock
    last_left: bool = False  # the attempt that follows is the last of its budget
    ready_at: datetime | None = None  # from when it waited for a worker alone: a pause that held it does not count


class Attempt(Struct, frozen=True, kw_only=True):
    """One HTTP request, as it is kept."""

    id: str
    delivery_id: int
    message_id: str
    endpoint_no: int
    endpoint_id: str
    endpoint_url: str  # as it is now
    event_type: str
    number: int  # 1, 2, 3 ... over the whole life of the delivery
    trigger: int
    outcome: str  # delivered | retry | dead
    probe: bool
    started_at: datetime
    status_code: int | None
    error: ErrorKind | None
    detail: str
    address: str
    response_headers: dict[str, str]
    response_body: bytes
    truncated: bool
    timing: Timing


class AttemptFilter(MessageFilter, frozen=True, kw_only=True):
    """`after` and `before` are about when it started; channel and tag are its message's."""

    delivered: bool | None = None
    code_class: int | None = None  # 0: no response; 100, 200 ... 500


class AttemptedFilter(MessageFilter, frozen=True, kw_only=True):
    """`after` and `before` are about the first attempt."""

    states: tuple[DeliveryState, ...] | None = None  # of the latest delivery: one of them


class Attempted(Struct, frozen=True, kw_only=True):
    """A message that was tried at an endpoint, and how its latest delivery there stands."""

    message: Message
    attempt_id: str  # the first that is kept: the listing's key
    attempted_at: datetime
    state: DeliveryState
    next_at: datetime | None = None  # of a delivery that waits


# ── lanes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Lane(Struct, frozen=True, kw_only=True):
    """The queue of one endpoint and what governs it. Written only under its row lock."""

    endpoint_no: int
    app_no: int
    status: EndpointStatus = EndpointStatus.ACTIVE
    revision: int = 1
    circuit: Circuit = Circuit.CLOSED
    epoch: int = 0  # grows with each change of the circuit
    failures: int = 0  # in a row
    failing_since: datetime | None = None  # the first failure since the last success
    trips: int = 0  # openings since the circuit was last closed
    opened_at: datetime | None = None
    probe_at: datetime | None = None  # open: the next probe; half-open: until when the probe holds the lane
    window: int | None = None  # recovering: most requests in flight
    window_at: datetime | None = None  # when the window last grew
    in_flight: int = 0  # claims that were made while the lane was limited
    waiting_floor: datetime | None = None  # somebody found no room: whoever frees some inserts a token with this floor
    throttle_rate: float | None = None
    concurrency: int | None = None
    tat: datetime | None = None  # GCRA: the theoretical arrival time of the next start
    held_until: datetime | None = None  # by a Retry-After
    pace: float | None = None  # starts a second that 429s have taught us; None: the endpoint has not complained
    pace_at: datetime | None = None  # when it last changed
    pace_top: float | None = None  # that was too much, the last time
    slowed_at: datetime | None = None  # the last complaint that slowed it
    app_rate: float | None = None  # starts a second of the application as a whole, all of its lanes together
    turn_at: datetime | None = None  # its turn among those of its lanes that wait for that rate


class AppPace(Struct, frozen=True, kw_only=True):
    """How far an application that has a rate is: shared by its lanes, and by all workers."""

    app_no: int
    tat: datetime | None = None  # GCRA: the theoretical arrival time of the next start
    tail_at: datetime | None = None  # the last turn that was given to a lane that waits


class LaneEventKind(StrEnum):
    CIRCUIT_OPENED = "circuit_opened"
    CIRCUIT_PROBE_FAILED = "circuit_probe_failed"
    CIRCUIT_RECOVERING = "circuit_recovering"
    CIRCUIT_CLOSED = "circuit_closed"
    CIRCUIT_RESET = "circuit_reset"
    ENDPOINT_PAUSED = "endpoint_paused"
    ENDPOINT_RESUMED = "endpoint_resumed"
    ENDPOINT_DISABLED = "endpoint_disabled"
    ENDPOINT_ENABLED = "endpoint_enabled"
    LANE_HELD = "lane_held"
    LANE_SLOWED = "lane_slowed"  # by a 429
    LANE_AT_SPEED = "lane_at_speed"  # the pace is forgotten


class ActorKind(StrEnum):
    COMMAND_LINE = "command_line"
    KEY = "key"  # an API key of the organization
    TOKEN = "token"  # noqa: S105
    APPLICATION_KEY = "application_key"
    APPLICATION_TOKEN = "application_token"  # noqa: S105
    OPERATOR = "operator"  # who signed in to the dashboard with a password
    PORTAL = "portal"  # a customer, in their portal


class Actor(Struct, frozen=True, kw_only=True):
    """Who did something by hand."""

    kind: ActorKind
    name: str | None = None  # of an API key, or an operator


class LaneEvent(Struct, frozen=True, kw_only=True):
    """An operational event of one endpoint, with its cause: the endpoint's timeline is made of these."""

    endpoint_no: int
    at: datetime
    kind: LaneEventKind
    cause: str
    actor: Actor | None = None  # None: nobody, it came about by itself


class LaneEventFilter(Struct, frozen=True, kw_only=True):
    kinds: tuple[LaneEventKind, ...] | None = None  # one of them
    since: datetime | None = None  # at or after
    until: datetime | None = None  # before

    def matches(self, event: LaneEvent) -> bool:
        return (
            (self.kinds is None or event.kind in self.kinds)
            and (self.since is None or event.at >= self.since)
            and (self.until is None or event.at < self.until)
        )


class TimelineEntry(Struct, frozen=True, kw_only=True):
    id: int  # in the order in which the lane changed
    event: LaneEvent


class RecordReport(Struct, frozen=True, kw_only=True):
    recorded: int  # results whose claim still held
    stale: int  # results of a lost lease: nothing was written for them
    events: tuple[LaneEvent, ...] = ()
    refused: tuple[
        int, ...
    ] = ()  # deliveries whose outcome the database will not take, whatever is tried: they are dead
    lost: tuple[str, ...] = ()  # the attempts of those that are stale


# ── dead letters ──────────────────────────────────────────────────────────────────────────────────────────────────


class DeadLetter(Struct, frozen=True, kw_only=True):
    id: int  # the delivery's
    app_no: int
    app_id: str
    endpoint_no: int
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
    last_status: int | None = None
    resolved_at: datetime | None = None
    note: str | None = None


class DeadFilter(Struct, frozen=True, kw_only=True):
    """All of the given fields must match. Resolved ones only where asked for."""

    org_id: str | None = None
    app_no: int | None = None
    endpoint_no: int | None = None
    event_type: str | None = None
    reason: Reason | None = None
    since: datetime | None = None  # died at or after
    until: datetime | None = None  # died before
    ids: tuple[int, ...] | None = None
    resolved: bool | None = False  # None: both


class DeadOfApplication(Struct, frozen=True, kw_only=True):
    app_id: str
    dead: int


class DeadStats(Struct, frozen=True, kw_only=True):
    dead: int
    pending: int  # sent again by hand, and still open; `reason` and the times of a filter do not apply to them
    resolved: int
    by_reason: dict[str, int]
    by_application: tuple[DeadOfApplication, ...] = ()  # those with the most
    oldest: datetime | None = None


class DeadGroup(Struct, frozen=True, kw_only=True):
    """Dead letters of one endpoint that have the same reason."""

    app_id: str
    endpoint_no: int
    endpoint_id: str
    endpoint_url: str
    reason: Reason
    dead: int
    oldest: datetime


class DeadSummary(Struct, frozen=True, kw_only=True):
    groups: tuple[DeadGroup, ...]  # the largest first
    more: bool  # older ones were not looked at: each number may be larger

    @property
    def dead(self) -> int:
        return sum(group.dead for group in self.groups)


# ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class TaskKind(StrEnum):
    RECOVER = "recover"  # an endpoint's dead letters, by when their messages were accepted
    REPLAY_MISSING = "replay_missing"  # messages that an endpoint never got
    BULK_REPLAY = "bulk_replay"  # messages that an endpoint got, or failed to take
    REPLAY_DEAD = "replay_dead"  # dead letters by filter
    RESOLVE_DEAD = "resolve_dead"


class TaskStatus(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"


class TaskWork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be done, with what; each kind uses its part. Kept as JSON."""

    since: datetime | None = None  # messages that were accepted at or after ...
    until: datetime | None = None  # ... and before
    died_since: datetime | None = None  # dead letters likewise
    died_until: datetime | None = None
    event_types: tuple[str, ...] | None = None
    channel: str | None = None
    tag: str | None = None
    reason: Reason | None = None
    outcome: DeliveryState | None = None  # of a bulk replay: only what was delivered, or only what is dead
    note: str = ""
    batch: str = ""  # tasks of several applications that were asked for at once, and are shown together


class NewTask(Struct, frozen=True, kw_only=True):
    org_id: str
    app_no: int
    kind: TaskKind
    work: TaskWork
    endpoint_no: int | None = None


class Task(Struct, frozen=True, kw_only=True):
    """Long work that workers do in steps."""

    id: str
    org_id: str
    app_no: int
    app_id: str
    kind: TaskKind
    status: TaskStatus
    work: TaskWork
    created_at: datetime
    updated_at: datetime
    endpoint_no: int | None = None
    endpoint_id: str | None = None
    done: int = 0
    skipped: int = 0  # matched, and was left as it is: nothing could be sent
    total: int | None = None  # that matched at the start; None: too many to count
    position: str | None = None  # where the next step begins
    error: str | None = None


class TaskFilter(Struct, frozen=True, kw_only=True):
    org_id: str
    app_no: int | None = None
    kinds: tuple[TaskKind, ...] | None = None
    statuses: tuple[TaskStatus, ...] | None = None


# ── outbox and sweep ──────────────────────────────────────────────────────────────────────────────────────────────


class OutboxRow(Struct, frozen=True, kw_only=True):
    """What an application's transaction wrote to an outbox of its own database."""

    id: int  # there
    app: str  # id or uid
    event_type: str
    payload: bytes
    event_id: str | None  # a second copy is known by it; None only in Hookline's own database
    org_id: str | None = None
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    policy: PolicyOverride | None = None
    trace: str | None = None
    fault: str | None = None  # what could not be read of it: it will be set aside


class OutboxPlace(Struct, frozen=True, kw_only=True):
    """How far the outbox of a SQLite file has been copied. The uid tells that row from another of the same number."""

    row_id: int
    row_uid: str


class RelayReport(Struct, frozen=True, kw_only=True):
    relayed: int = 0
    repeated: int = 0  # the event id was taken already: harmless
    set_aside: int = 0  # rows that cannot become messages; kept with their reason
    reasons: tuple[str, ...] = ()  # the first few of them

    @property
    def gone(self) -> int:
        """Rows that left the outbox's queue."""
        return self.relayed + self.repeated + self.set_aside


class SetAside(Struct, frozen=True, kw_only=True):
    """An outbox row that could not become a message."""

    id: int
    org_id: str | None
    app: str
    event_type: str
    event_id: str | None
    payload: bytes
    reason: str
    source: str | None  # the database that it was copied from; None: this one
    created_at: datetime
    set_aside_at: datetime | None


class OutboxView(Struct, frozen=True, kw_only=True):
    """The outbox of this database, as `doctor` sees it."""

    waiting: int  # counted up to a bound
    oldest: datetime | None  # of those that wait
    set_aside: int  # counted up to a bound


class Death(Struct, frozen=True, kw_only=True):
    """Of a delivery that died while it waited."""

    delivery_id: int
    message_id: str
    endpoint_no: int
    event_type: str
    reason: Reason
    sent: int  # attempts that were made before
    accepted_at: datetime
    died_at: datetime
    manual: bool = False  # it was sent again by hand
    trace: str | None = None  # of the message


class SweepReport(Struct, frozen=True, kw_only=True):
    leases: int = 0  # expired, back to pending
    expired: int = 0  # time budget over: dead
    deleted: int = 0  # endpoint gone: dead
    retired: int = 0  # rows or partitions taken by retention
    repaired: int = 0  # lanes that would not have woken: must stay 0
    paused: int = 0
    disabled: int = 0
    events: tuple[LaneEvent, ...] = ()
    deaths: tuple[Death, ...] = ()  # one for each that expired, or whose endpoint was deleted
    dead_expired: int = 0  # of the retired: dead letters that nobody had resolved


class LaneView(Struct, frozen=True, kw_only=True):
    """A lane for people: `hookline endpoints`, `doctor`, the health route and the dashboard."""

    lane: Lane
    endpoint_id: str
    url: str
    app_id: str
    depth: int  # open deliveries, counted up to a bound
    oldest_due: datetime | None
    last_error: str | None = None


class Troubled(Struct, frozen=True, kw_only=True):
    """A lane that is held back, whose last attempts have failed, or that has dead letters."""

    view: LaneView
    org_id: str
    app_name: str
    dead: int  # dead letters that nobody has resolved, counted up to a bound
    dead_since: datetime | None = None  # when the first of these died
    stopped_at: datetime | None = None  # when it was last paused or disabled


class Backlog(Struct, frozen=True, kw_only=True):
    """What waits in the lanes of one organization or application. Deliveries are counted up to a bound."""

    lanes: int
    held_lanes: int
    waiting: int  # in lanes that are not held back, due or not
    held: int  # in those that are
    oldest_due: datetime | None  # of those that wait and are not held back


class Counts(Struct, frozen=True, kw_only=True):
    """Open deliveries by state, dead letters, lanes by circuit."""

    pending: int
    scheduled: int
    queued: int
    delivering: int
    dead: int
    lanes_open: int
    oldest_due: datetime | None


class Depths(Struct, frozen=True, kw_only=True):
    """How much there is of everything that is open, at one instant: for metrics, alerts and `top`.

    A lane is held back while it is paused or disabled, while a Retry-After holds it, and while its circuit is open or probed.
    """

    at: datetime  # by the database's clock
    seconds: float  # that the counting took
    states: dict[str, int]  # open deliveries: pending, scheduled, delivering, queued
    due: int  # of those that wait: due by now, in lanes that are not held back
    oldest_due: datetime | None  # of these
    held: int  # that wait in lanes that are held back, due or not
    dead: dict[str, int]  # unresolved dead letters, by reason
    circuits: dict[str, int]  # of lanes that are active: closed, open, half_open, recovering
    lanes: dict[str, int]  # paused, disabled, held (by a Retry-After), slowed; a lane may be several of these
    outbox_waiting: int  # of this database; counted up to a bound, as those set aside are
    outbox_oldest: datetime | None  # of those that wait
    outbox_set_aside: int
    alerts: dict[str, dict[str, int]]  # that fire: by name and severity

    @property
    def backlog_age(self) -> float:
        """Seconds that the oldest of those that are due waits already."""
        return 0.0 if self.oldest_due is None else max(0.0, (self.at - self.oldest_due).total_seconds())

    @property
    def outbox_lag(self) -> float:
        """Seconds that the oldest outbox row waits already."""
        return 0.0 if self.outbox_oldest is None else max(0.0, (self.at - self.outbox_oldest).total_seconds())


# ── statistics ────────────────────────────────────────────────────────────────────────────────────────────────────


class StatsFilter(Struct, frozen=True, kw_only=True):
    """One organization, one of its applications, or one endpoint of that; from `since` on and before `until`."""

    org_id: str
    since: datetime
    until: datetime
    app_no: int | None = None
    endpoint_no: int | None = None


class Stats(Struct, frozen=True, kw_only=True):
    """What happened in a stretch of time, and how many deliveries are open now."""

    messages: int  # accepted; 0 where one endpoint is asked for
    pending: int  # now
    scheduled: int  # now
    queued: int  # now: behind others of their ordering key
    delivering: int  # now
    delivered: int
    dead: int  # died, and nobody has replayed or resolved them since
    resolved: int  # died, and somebody has resolved them since
    retries: int  # attempts that failed and were followed by another try
    deaths: int  # attempts that ended a delivery for good
    dead_open: int  # now, whenever they died
    complete: bool  # False: a figure reached the bound up to which is counted, and may be larger
