"""What an engine must do, in the order of the flow. `sqlite/` and `postgres/` do it; one conformance suite runs on both.

Every method is one transaction unless it says otherwise. All instants are the database's clock. A connection that is lost
raises `StoreUnavailable`; input that cannot be taken raises `InvalidInput`, `NotFound` or `Conflict` and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from msgspec import UNSET, Struct, UnsetType

from hookline.access import Audit, AuditFilter, Lock, NewAudit, NewSession, Operator, Session
from hookline.clock import from_micros, to_micros
from hookline.errors import InvalidInput
from hookline.model import (
    Accepted,
    Actor,
    ApiKey,
    Application,
    ApplicationChange,
    AppShare,
    Attempt,
    Attempted,
    AttemptedFilter,
    AttemptFilter,
    Backlog,
    BatchAccepted,
    CircuitPolicy,
    ClaimBatch,
    Counts,
    DeadFilter,
    DeadLetter,
    DeadStats,
    DeadSummary,
    Delivery,
    Depths,
    Endpoint,
    EndpointChange,
    EventType,
    Found,
    FoundFilter,
    Job,
    KeptAnswer,
    LaneEvent,
    LaneEventFilter,
    LaneView,
    Message,
    MessageFilter,
    NewApiKey,
    NewApplication,
    NewBatch,
    NewEndpoint,
    NewMessage,
    NewTask,
    Organization,
    OutboxPlace,
    OutboxRow,
    OutboxView,
    RecordReport,
    RelayReport,
    Result,
    RetryPolicy,
    Scope,
    SetAside,
    Stats,
    StatsFilter,
    SweepReport,
    Task,
    TaskFilter,
    TimelineEntry,
    Troubled,
)
from hookline.observe.activity import Activity, Deed
from hookline.observe.alerts.alert import Alert, Decide, Looks, Notice, Outgoing, Tell, Unwell
from hookline.observe.pulse import Pulse
from hookline.states import EndpointStatus

T = TypeVar("T")

SCHEMA_VERSION = 7
MOST_DIGITS = 18  # of a number that every engine can hold
LAST_NUMBER = 10**MOST_DIGITS
_LAST_MICROS = to_micros(datetime(9000, 1, 1, tzinfo=UTC))

STEP = 1000  # rows that one step of a task looks at
COUNTED = 10_000  # rows that are looked at to tell how many a task will find
COUNTED_DEAD = 500_000  # dead letters, which need not be looked at one by one
MOST_WAITING = 10_000  # deliveries, or dead letters, that are counted where a page tells of them
COUNTING = 50.0  # times as long as the counting of depths took, they are given again: it takes 2 % of the time at most
MOST_RUNNING = 20  # tasks of one application at a time
MOST_ATTEMPTS = 500  # of a dead letter's history that are shown
TOP_APPLICATIONS = 10

IDLE = 24 * 3600.0  # seconds after which a session that nobody uses is over

FAR_LEASE = 7200.0  # seconds: nobody leases for longer, so a lease that ends later was made by a clock that was wrong


class StoreOptions(Struct, frozen=True, kw_only=True):
    """What the deployment decides for its store."""

    retry: RetryPolicy = RetryPolicy()
    circuit: CircuitPolicy = CircuitPolicy()
    lease: float = 60.0
    retention_days: int = 30  # history: attempts, delivered, messages
    dead_retention_days: int = 30
    audit_retention_days: int = 365
    idempotency_hours: float = 24.0
    max_payload: int = 1024 * 1024  # bytes of an outbox row's payload
    outbox_poll: float = 0.04  # seconds between two looks at this database's outbox
    pool_size: int = 10  # PostgreSQL connections of one process


class Page(Struct, frozen=True, kw_only=True):
    """Where a listing goes on: rows after (or, backwards, before) `iterator`, at most `limit`."""

    limit: int = 50
    iterator: str | None = None
    backwards: bool = False
    descending: bool = False  # the listing from its end: of applications, event types and endpoints


class Walk(Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a listing whose filter may match rarely: what one request found of it, in the listing's order."""

    rows: list[T]
    end: str | None = None  # there may be more: go on behind this key. None: a whole page, or all there is


def death(died_at: datetime, dead_id: int) -> str:
    """A place in the listing of dead letters: the iterator. It stays one when the letter there is replayed."""
    return f"{to_micros(died_at)}_{dead_id}"


def after_death(iterator: str | None) -> tuple[datetime, int] | None:
    """When the dead letter at that place died, and its id; None: from the start of the listing."""
    if iterator is None:
        return None
    at, _, number = iterator.partition("_")
    if not all(text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS for text in (at, number)):
        raise InvalidInput(f"the iterator {iterator[:40]!r} is none of this listing's")
    if int(at) > _LAST_MICROS:
        raise InvalidInput(f"the iterator {iterator[:40]!r} is none of this listing's")
    return from_micros(int(at)), int(number)


def after_number(iterator: str | None) -> int | None:
    """Where a listing by number goes on; None: from its start, or backwards from its end."""
    if iterator is None:
        return None
    if not (iterator.isascii() and iterator.isdigit() and len(iterator) <= MOST_DIGITS):
        raise InvalidInput(f"the iterator {iterator[:40]!r} is none of this listing's")
    return int(iterator)


class Store(Protocol):
    """One database. Open it with `hookline.store.open_store`.

    What `operational.Kind` names is told in the transaction in which it happens, where the organization listens.
    """

    engine: str  # "sqlite" | "postgres"

    # ── life ──
    async def version(self) -> int:
        """The number of the newest migration that was applied; 0 for an empty database."""

    async def migrate(self) -> list[int]:
        """Apply what is missing, under one lock; the numbers that were applied. Newer than us: `MigrationNeeded`."""

    async def now(self) -> datetime: ...
    async def close(self) -> None: ...

    # ── catalogue ──
    async def save_organization(self, org: Organization) -> Organization:
        """Create it, or return the one that has the id."""

    async def organization(self, org_id: str) -> Organization | None: ...
    async def revoke_tokens(self, org_id: str, app_no: int | None, before: datetime) -> None:
        """Tokens of the organization, or of one application, that were issued before are void."""

    async def create_application(self, org_id: str, new: NewApplication) -> Application:
        """`Conflict` if the uid is taken in the organization."""

    async def application(self, org_id: str, ref: str) -> Application | None:
        """By id or uid."""

    async def applications(self, org_id: str, page: Page) -> list[Application]:
        """By id."""

    async def change_application(self, app_no: int, change: ApplicationChange) -> Application:
        """`Conflict` if the uid is taken in the organization, `NotFound` if the application was deleted.

        A new throttle is copied into its lanes under their locks, and wakes them.
        """

    async def delete_application(self, app_no: int) -> None:
        """With its endpoints; open deliveries die as `endpoint_deleted` in the sweep."""

    async def save_event_type(
        self, event_type: EventType, *, replacing: EventType | UnsetType | None = UNSET
    ) -> EventType:
        """Create or replace, by organization and name. `created_at` of an existing one stays.

        `replacing` is what the caller saw there before, None for nothing: `Overtaken`, and nothing is changed, if it was
        saved since.
        """

    async def event_type(self, org_id: str, name: str) -> EventType | None: ...
    async def event_types(self, org_id: str, page: Page, *, archived: bool = True) -> list[EventType]:
        """By name; the iterator is a name. With those that are archived, unless told otherwise."""

    async def expunge_event_type(self, org_id: str, name: str) -> None:
        """For good, as if it had never been there. `NotFound` if it is not."""

    async def create_endpoint(self, app_no: int, new: NewEndpoint) -> Endpoint:
        """With its lane, in one transaction. `Conflict` if the uid is taken in the application."""

    async def change_endpoint(
        self, endpoint_no: int, change: EndpointChange, *, revision: int | None = None
    ) -> Endpoint:
        """Raises the revision; the lane's copy of throttle and concurrency changes under its lock, and wakes.

        `Overtaken`, and nothing is changed, if a revision is given and the endpoint has another one by now.
        """

    async def set_endpoint_status(
        self, endpoint_no: int, status: EndpointStatus, cause: str, *, actor: Actor | None = None
    ) -> Endpoint:
        """Pause, resume, disable, enable. What a pause has held gets a new time budget when it ends; resume wakes the lane.

        Recorded as a `LaneEvent`. Deleting is `delete_endpoint`.
        """

    async def open_circuit(
        self, endpoint_no: int, cause: str, *, until: datetime | None = None, actor: Actor | None = None
    ) -> LaneEvent:
        """Nothing is sent until then, or for a usual cooldown; a probe follows. See `circuit.open_by_hand`."""

    async def close_circuit(self, endpoint_no: int, cause: str, *, actor: Actor | None = None) -> LaneEvent | None:
        """Send again, as gently as after a good probe. None if it was not open. See `circuit.close_by_hand`."""

    async def reset_circuit(self, endpoint_no: int, cause: str, *, actor: Actor | None = None) -> LaneEvent | None:
        """Close the circuit, forget failures and holds, raise the epoch and wake the lane, under its lock. See `circuit.reset`.

        Recorded as a `LaneEvent`; None if there was nothing to reset.
        """

    async def delete_endpoint(self, endpoint_no: int) -> None:
        """The row stays, marked; the sweep turns its open deliveries into dead letters, `endpoint_deleted`."""

    async def endpoint(self, app_no: int, ref: str) -> Endpoint | None:
        """By id or uid; None if deleted."""

    async def endpoint_by_id(self, org_id: str, endpoint_id: str) -> Endpoint | None:
        """By public id across the organization's applications."""

    async def endpoints(self, app_no: int, page: Page) -> list[Endpoint]: ...
    async def endpoints_for(self, nos: Iterable[int]) -> list[Endpoint]:
        """For a worker's cache: by number, deleted ones too (status DELETED), secrets opened.

        One whose secrets no key opens comes back with `secrets=()` and `status_reason` naming the fault: a worker judges
        its deliveries `unsendable`; it never blocks the others.
        """

    # ── keys, tokens and answers of the API ──
    async def create_api_key(self, org_id: str, new: NewApiKey) -> ApiKey:
        """`NotFound` if the organization, or its application, does not exist."""

    async def api_key(self, org_id: str, key_id: str) -> ApiKey | None:
        """None if it was revoked."""

    async def api_keys(self, org_id: str, page: Page) -> list[ApiKey]:
        """By id, without those that were revoked."""

    async def api_key_by_hash(self, hashed: bytes) -> ApiKey | None:
        """For whoever presents it: None if it was revoked, or its application was deleted. It may have expired."""

    async def revoke_api_key(self, org_id: str, key_id: str) -> None:
        """For good. `NotFound` if there is none, or it was revoked before."""

    async def touch_api_key(self, key_id: str) -> None:
        """It was used now; written at most once a minute."""

    async def revoke_token(self, hashed: bytes, until: datetime) -> None:
        """This one token is void; remembered until it would have expired."""

    async def token_revoked(self, hashed: bytes) -> bool: ...
    async def hold_answer(self, key: bytes, request: bytes, seconds: float) -> KeptAnswer:
        """Take the key for a request, under a lease; or see who has it.

        A key is free if nobody had it within the window, or if whoever had it for the same request let the lease lapse.
        """

    async def answer(self, key: bytes) -> KeptAnswer | None:
        """None: it is free. Changes nothing."""

    async def renew_answer(self, key: bytes, claim: int, seconds: float) -> bool:
        """Hold it for longer; False: the lease was lost."""

    async def keep_answer(self, key: bytes, claim: int, status: int, response: bytes) -> bool:
        """The answer, sealed, for as long as keys are remembered; False: the lease was lost, and nothing was kept."""

    async def drop_answer(self, key: bytes, claim: int) -> None:
        """Nothing came of it: the key is free again."""

    # ── people: operators, sessions, guesses, audit ──
    async def create_operator(self, new: Operator) -> Operator:
        """`Conflict` if the name is taken, `NotFound` if the organization does not exist. `created_at` is the database's."""

    async def operator(self, name: str) -> Operator | None: ...
    async def operators(self, org_id: str | None, page: Page) -> list[Operator]:
        """By name, which is the iterator; of every organization, without one."""

    async def change_operator(self, name: str, *, role: Scope | None = None, password: str | None = None) -> Operator:
        """A new password ends the sessions that were begun with the old one. `NotFound` if there is no such operator."""

    async def delete_operator(self, name: str) -> None:
        """With their sessions. `NotFound` if there is none."""

    async def add_session(self, new: NewSession) -> None:
        """`NotFound` if a password is given and the operator is gone, or has another by now."""

    async def session(self, hashed: bytes) -> Session | None:
        """None: over, or unknown, or not seen for `IDLE` seconds; or whoever began it is gone (the operator, the API key that was
        revoked or has expired, the token that was revoked in any way, the application). Changes nothing."""

    async def touch_session(self, hashed: bytes) -> None:
        """It was seen now; written at most once a minute."""

    async def end_session(self, hashed: bytes) -> None: ...
    async def end_sessions(self, operator: str) -> int:
        """All of theirs, everywhere; how many."""

    async def take_guess(self, rules: Mapping[bytes, Lock]) -> datetime | None:
        """Count a guess against each subject before it is looked at, so that many at a time are not free.

        Until when one of them is locked, the longest: then nothing was counted, and the guess must not be looked at. Each
        has a rule of its own, which must be pure.
        """

    async def forgive(self, subjects: Sequence[bytes]) -> None:
        """The guess was right: they are forgotten."""

    async def add_audit(self, entries: Sequence[NewAudit]) -> None:
        """Whatever their texts are: too long ones are cut, and what cannot be stored is replaced."""

    async def audit_log(self, where: AuditFilter, page: Page) -> Walk[Audit]:
        """Newest first; the iterator is a number."""

    # ── ingest ──
    async def ingest(self, batch: Sequence[NewMessage]) -> list[Accepted]:
        """Accept a batch: messages, their deliveries, wake tokens, keys. One answer per message, in order.

        Never writes lane rows. Two of one batch with the same event id or key: the first wins. A delivery's `expires_at`
        is acceptance (or `deliver_at`, if later) plus the max age of message, endpoint, event type or deployment, whichever
        comes first; its policy is the three overrides merged, NULL when there is none. Wakes sleeping workers (see `arm`).
        """

    async def ingest_batch(self, batch: NewBatch) -> BatchAccepted:
        """Accept a caller's whole list in one transaction, as `ingest` does, with one idempotency key for all of it.

        The key keeps the answers and the caller's own faults: the same key and body get them again, also after a COMMIT
        that was not answered. `NotFound` if the application is gone; nothing is kept then. `Conflict` if the same key is
        at work elsewhere for longer than a request may wait; no connection is held meanwhile.
        """

    async def accepted_under(self, key: bytes, body: bytes) -> Accepted | None:
        """What `ingest` would say of a message with this idempotency key, if the key is taken: replayed or key_reused."""

    # ── outbox ──
    async def relay(self, limit: int) -> RelayReport:
        """Move up to `limit` outbox rows of this database into messages and deliveries, in one transaction.

        Rows are taken by state under SKIP LOCKED, never by a cursor. A row that cannot become a message (no such
        application, anything that `messages.check_message` refuses) is set aside with its reason and never blocks the
        rest. An `event_id` that is taken is dropped: the message exists already.
        """

    async def wait_outbox(self, timeout: float) -> None:
        """Sleep until rows may be in this database's outbox, or the time is over; it may end sooner."""

    async def leave_outbox(self) -> None:
        """Nobody here waits for the outbox any more: whoever does elsewhere is told of new rows instead."""

    async def take(
        self,
        rows: Sequence[OutboxRow],
        *,
        source: str,
        place: OutboxPlace | None = None,
        after: OutboxPlace | None = None,
    ) -> RelayReport | None:
        """Rows of another database's outbox, copied here as `relay` would have moved them, in one transaction.

        Those that cannot become messages are set aside in this database's outbox, once for each event id. With `place`,
        where these rows end is noted in the same transaction, if the source still stands at `after`; None: somebody else
        was quicker, nothing is done.
        """

    async def place(self, source: str) -> OutboxPlace | None:
        """How far that source has been copied."""

    async def outbox(self) -> OutboxView:
        """Costs the same however much waits."""

    async def set_aside(self, page: Page) -> list[SetAside]:
        """Outbox rows that could not become messages, by number; the iterator is a number."""

    async def retry_set_aside(self, ids: Sequence[int] | None) -> int:
        """Put them (None: all) back into the outbox, to be relayed anew; how many there were."""

    async def discard_set_aside(self, ids: Sequence[int]) -> int:
        """Forget them for good; how many there were."""

    # ── claim ──
    async def arm(self) -> bool:
        """Say that this worker is about to sleep. True: from now on `wait` hears of new work; look once more before it."""

    async def wait(self, timeout: float) -> None:
        """Sleep until new work may be there (a notification, `wake`, another process's commit) or the time is over."""

    def wake(self) -> None:
        """End the `wait` of this process; from any thread."""

    async def claim(
        self, want: int, *, held: Mapping[int, int], share: int, apps: AppShare | None = None
    ) -> ClaimBatch:
        """Lease up to `want` due deliveries, lanes in turn, under a fresh claim token. See `flow/claim.py` for the rules.

        `held` says how many this worker already holds by endpoint, and `share` the most that one lane may hold of it;
        `apps` the same of applications, where `want` is all that the worker has free.
        """

    async def release(self, jobs: Sequence[Job]) -> int:
        """Give back what was not sent: pending again, no attempt spent, fenced; the number that was still ours."""

    # ── record ──
    async def record(self, results: Sequence[Result], *, wake: Collection[int] = ()) -> RecordReport:
        """Write outcomes: attempts, deliveries moved on, lane health folded in the given order, tokens. Fenced, one transaction.

        A batch that fails on its data is bisected down to the bad row. That row is tried once more without what the
        endpoint sent (headers, body, detail) and with its times in bounds, so that the delivery still moves on; if even that
        fails the delivery is buried as dead, `unsendable`, in a transaction of its own, and is in `refused`.
        `wake` names endpoints that were crowded out of this worker and have room there again: each gets a token for now.
        """

    # ── sweep ──
    async def sweep_leases(self, limit: int = 1000) -> SweepReport:
        """Expired leases go back to pending, at the lane's back, and free their room. Nothing if another worker is at it.

        One that ends further away than `FAR_LEASE` counts as expired: the clock was ahead when it was made, and was
        corrected since.
        """

    async def sweep_expired(self, limit: int = 1000) -> SweepReport:
        """Waiting deliveries past `expires_at` become dead, `budget_exhausted`; those of paused lanes do not."""

    async def sweep_deleted(self, limit: int = 1000) -> SweepReport:
        """Waiting deliveries of deleted or missing endpoints become dead, `endpoint_deleted`; tokens without a lane go."""

    async def sweep_failing(self, *, pause_dead: int, disable_after: float) -> SweepReport:
        """Pause endpoints with more dead letters in a day than `pause_dead`; disable those failing for `disable_after` s.

        Failing steadily means that the circuit is not closed and there was no success since.
        """

    async def retire(self, limit: int = 5000) -> SweepReport:
        """Apply retention: history, resolved or over-age dead letters, keys. Never the payload of an open or dead delivery.

        SQLite: nothing for a day after the wall clock has jumped by more than an hour while this process ran.
        """

    async def audit(self, *, repair: bool) -> list[int]:
        """Endpoints with a waiting delivery that no token, probe, hold or room will ever wake. Slow; repaired if asked."""

    # ── dead letters and replay ──
    async def dead_letters(self, where: DeadFilter, page: Page) -> list[DeadLetter]:
        """Those that died last come first; one that was replayed and died again is new. Iterators are `death`s."""

    async def dead_letter(self, dead_id: int) -> DeadLetter | None: ...
    async def dead_attempts(self, letter: DeadLetter) -> list[Attempt]:
        """All that were made for it, oldest first; of very many, the last ones."""

    async def dead_stats(self, where: DeadFilter) -> DeadStats: ...
    async def dead_summary(self, where: DeadFilter) -> DeadSummary:
        """By endpoint and reason, of the `COUNTED` that died last: unlike `dead_stats`, its cost does not grow with them."""

    async def dead_applications(self, where: DeadFilter, most: int) -> list[int]:
        """The numbers of the organization's applications that have any, in their order."""

    async def replay(self, where: DeadFilter, limit: int = 1000) -> int:
        """Turn up to `limit` matching dead letters back into pending deliveries; how many. Call until it is 0.

        Those that died first come first.

        Attempts 0, time budget anew from now, policy as it was, the delivery's id and history kept. Those of deleted and
        disabled endpoints are left alone: nothing would be sent. Those of paused ones are held until they are resumed.
        Wakes their lanes.
        """

    async def resolve(self, where: DeadFilter, note: str, limit: int = 1000) -> int:
        """Close up to `limit` matching dead letters with a note; how many."""

    async def replay_missing(self, endpoint_no: int, since: datetime, until: datetime, limit: int = 1000) -> int:
        """Deliveries for messages that match the endpoint now and never had one to it. Call until it is 0.

        Messages that are older than the retention are left alone: what was known of their deliveries may be gone.
        `NotFound` if the endpoint was deleted, `Conflict` if it is disabled.
        """

    async def send_example(self, endpoint_no: int, new: NewMessage) -> Message:
        """Accept a message for one endpoint alone, with a manual delivery to it, whatever it subscribes to.

        Nobody else gets it, not even by `replay_missing`. Event id, key, channels and the like are not for examples.
        """

    async def resend(self, endpoint_no: int, message_id: str) -> int | None:
        """A manual delivery of one message to one endpoint, whatever came before; its id. None: no such message or payload.

        `NotFound` if the endpoint was deleted.
        """

    # ── tasks ──
    task_added: asyncio.Event  # set when this process has added one

    async def add_task(self, new: NewTask) -> Task:
        """Work for any worker, durable. `Conflict` if the application has too many running."""

    async def task_total(self, new: NewTask) -> int | None:
        """How many it would find, if it were added now; None: too many to count."""

    async def task(self, org_id: str, task_id: str) -> Task | None: ...
    async def tasks(self, where: TaskFilter, page: Page, *, newest_first: bool = True) -> list[Task]:
        """By id."""

    async def cancel_task(self, task_id: str) -> Task:
        """As it is afterwards: canceled if it was running, else as it was. What is done stays done."""

    async def open_tasks(self, limit: int) -> list[str]:
        """Running ones, those whose last step is longest ago first: tasks take turns."""

    async def step_task(self, task_id: str, limit: int = STEP) -> Task | None:
        """Do a part of it, as far as `limit` rows go; as it is afterwards. None: not running, or somebody else is at it.

        The work and the progress are one transaction, and the task's row is locked in it: that lock is the lease. Whoever
        dies in a step has done nothing of it, and the next one begins where the last complete step ended.
        """

    async def fail_task(self, task_id: str, error: str) -> None:
        """Give it up, if it is still running."""

    # ── views ──
    async def message(self, app_no: int, ref: str) -> Message | None:
        """By id or event id."""

    async def messages(self, app_no: int, where: MessageFilter, page: Page, *, content: bool = False) -> Walk[Message]:
        """Newest first; with payloads only where asked for."""

    async def found_messages(self, org_id: str, where: FoundFilter, page: Page) -> Walk[Found]:
        """Newest first, of one application or of all; without payloads, with the states of their deliveries.

        Where the filter may match rarely one call looks at a bounded number of messages, and says where to go on.
        """

    async def messages_of(self, app_no: int, message_ids: Sequence[str]) -> list[Message]:
        """Those of the application among them, in any order, without payload."""

    async def expunge_message(self, message: Message, *, force: bool = False) -> bool:
        """Its payload becomes None for good. False: it is still to be sent, or dead and unresolved; `force` does it even so."""

    async def message_by_id(self, message_id: str) -> Message | None: ...
    async def deliveries(self, message_id: str) -> list[Delivery]:
        """All of one message: open, done, dead."""

    async def attempts(self, message_id: str) -> list[Attempt]:
        """All of one message, oldest first."""

    async def attempt(self, message: Message, attempt_id: str) -> Attempt | None: ...
    async def expunge_attempt(self, message: Message, attempt_id: str) -> bool:
        """What the endpoint answered, headers and body, is removed for good. False: there is no such attempt."""

    async def endpoint_attempts(
        self, endpoint_no: int, where: AttemptFilter, page: Page, *, content: bool = True
    ) -> Walk[Attempt]:
        """Newest first; the iterator is an attempt id. Headers and body of the answers only where asked for."""

    async def message_attempts(
        self,
        message: Message,
        where: AttemptFilter,
        page: Page,
        *,
        endpoint_no: int | None = None,
        content: bool = True,
    ) -> list[Attempt]:
        """Likewise, of one message. Event types, channel and tag are for the caller to compare with the message."""

    async def attempted_messages(
        self, endpoint_no: int, where: AttemptedFilter, page: Page, *, content: bool = False
    ) -> Walk[Attempted]:
        """Messages that were tried at the endpoint, by their first attempt that is kept, newest first; that is the iterator."""

    async def lanes(self, org_id: str | None = None, app_no: int | None = None) -> list[LaneView]: ...
    async def lane_page(
        self, org_id: str, app_no: int | None, page: Page, *, url: str = "", state: str | None = None
    ) -> list[LaneView]:
        """Likewise, in pages by the endpoint's id, which is the iterator; only those that have this text, in small letters, in
        their URL, and are in this state: one of those of `dashboard/health.py`, or `sick` for all that are not well."""

    async def lane_view(self, endpoint_no: int) -> LaneView | None: ...
    async def troubled(self, most: int, *, org_id: str | None = None, app_no: int | None = None) -> list[Troubled]:
        """Up to so many lanes that are held back, have dead letters that nobody has resolved, whose last attempts failed, or that
        429s have slowed: in this order, and those that have failed for longest, or have the most dead letters, first."""

    async def backlog(self, org_id: str, app_no: int | None = None) -> Backlog: ...
    async def lane_events(self, endpoint_no: int, limit: int = 100) -> list[LaneEvent]:
        """Newest first."""

    async def timeline(self, endpoint_no: int, where: LaneEventFilter, page: Page) -> Walk[TimelineEntry]:
        """Likewise, in pages; the iterator is an entry's number."""

    async def counts(self) -> Counts: ...
    async def depths(self, *, fresh: float = 0.0) -> Depths:
        """How much there is of everything that is open. Never counts history.

        Counting takes longer the more is open, so that an answer may be shared: one that this process (or, on PostgreSQL, any
        process) got is given again for `fresh` seconds, or for `COUNTING` times as long as it took, whichever is longer; and
        while another is counting, the last one is. With 0 it is always counted anew.
        """

    # ── pulses ──
    async def add_pulse(self, process: str, pulse: Pulse, deeds: Sequence[Deed] = ()) -> None:
        """What that process did since its last one, and its endpoints; `at` is the database's."""

    async def activity(
        self, since: datetime, *, org_id: str, app_no: int | None = None, endpoint_no: int | None = None, grain: int
    ) -> list[Activity]:
        """Of an organization, an application or one of its endpoints, oldest first, from the stretch that `since` is in; those in
        which nothing happened are left out. Minutes are kept for two hours, quarters of an hour for a week."""

    async def endpoint_activity(
        self, nos: Sequence[tuple[int, int]], since: datetime, *, grain: int
    ) -> dict[int, list[Activity]]:
        """Likewise, of several endpoints (the number of the application, and its own), by their number."""

    async def pulses(self, since: datetime, until: datetime | None = None, *, minutes: bool = False) -> list[Pulse]:
        """Of all processes after `since` and until then, oldest first; or by the minute, of all together."""

    async def roll_pulses(self) -> SweepReport:
        """Make minutes of them, and forget those that are old. Nothing if another worker is at it."""

    # ── alerts ──
    async def alert_looks(self, seconds: float) -> Looks:
        """When the rules were asked in the last so many seconds, or longer."""

    async def unwell(self, nos: Collection[int], most: int) -> list[Unwell]:
        """These endpoints, and up to so many whose circuit is not closed; none that was deleted."""

    async def judge_alerts(self, backlog: int, *, every: float, decide: Decide, tell: Tell) -> list[Notice] | None:
        """Decide on what is remembered, write what changes, and what is told of it to the outbox: one transaction.

        The alerts that fired, got worse or are resolved. None: another process is at it, or has just been. `decide` and
        `tell` must be pure, and may be asked twice.
        """

    async def tell_alerts(self, outgoing: Sequence[Outgoing]) -> None:
        """Messages of the alerts' own application, to the outbox."""

    async def alerts(self, page: Page, *, firing: bool | None = None) -> list[Alert]:
        """Newest first; the iterator is a number. Only those that fire, or only those that do not, if asked."""

    # ── statistics ──
    async def in_flight(self, endpoint_no: int) -> int:
        """Deliveries that are leased now, whether or not the lane is limited."""

    async def stats(self, where: StatsFilter) -> Stats:
        """Counted by the instants in the ids of messages and attempts, and by when dead letters died; one snapshot.

        The work grows with what is in the window and what is open, up to a bound for each figure; never with history.
        """
