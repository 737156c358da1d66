"""What an engine must do, in the order of the flow. `sqlite/` and `postgres/` do it; one conformance suite runs on both.

Every method is one transaction unless it says otherwise. All instants are the database's clock. A connection that is lost
raises `StoreUnavailable`; input that cannot be taken raises `InvalidInput`, `NotFound` or `Conflict` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from hookline.errors import InvalidInput
from hookline.model import (
    Accepted,
    Application,
    Attempt,
    CircuitPolicy,
    ClaimBatch,
    Counts,
    DeadFilter,
    DeadLetter,
    DeadStats,
    Delivery,
    Endpoint,
    EndpointChange,
    EventType,
    Job,
    LaneEvent,
    LaneView,
    Message,
    NewApplication,
    NewEndpoint,
    NewMessage,
    Organization,
    RecordReport,
    RelayReport,
    Result,
    RetryPolicy,
    SweepReport,
)
from hookline.states import EndpointStatus

SCHEMA_VERSION = 2
MOST_DIGITS = 18  # of a number that every engine can hold

FAR_LEASE = 7200.0  # seconds: nobody leases for longer, so a lease that ends later was made by a clock that was wrong


class StoreOptions(Struct, frozen=True, kw_only=True):
    """What the deployment decides for its store."""

    retry: RetryPolicy = RetryPolicy()
    circuit: CircuitPolicy = CircuitPolicy()
    lease: float = 60.0
    retention_days: int = 30  # history: attempts, delivered, messages
    dead_retention_days: int = 30
    idempotency_hours: float = 24.0
    max_payload: int = 1024 * 1024  # bytes of an outbox row's payload
    pool_size: int = 8  # PostgreSQL connections of one process


class Page(Struct, frozen=True, kw_only=True):
    """Where a listing goes on: rows after (or, backwards, before) `iterator`, at most `limit`."""

    limit: int = 50
    iterator: str | None = None
    backwards: bool = False


def after_id(page: Page) -> int | None:
    """The iterator of a listing by number; None: from its start."""
    text = page.iterator
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise InvalidInput(f"the iterator {text[:40]!r} is not the id of a dead letter")
    return int(text)


class Store(Protocol):
    """One database. Open it with `hookline.store.open_store`."""

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

    async def delete_application(self, app_no: int) -> None:
        """With its endpoints; open deliveries die as `endpoint_deleted` in the sweep."""

    async def save_event_type(self, event_type: EventType) -> EventType:
        """Create or replace, by organization and name. `created_at` of an existing one stays."""

    async def event_type(self, org_id: str, name: str) -> EventType | None: ...
    async def event_types(self, org_id: str, page: Page) -> list[EventType]:
        """By name; the iterator is a name."""

    async def create_endpoint(self, app_no: int, new: NewEndpoint) -> Endpoint:
        """With its lane, in one transaction. `Conflict` if the uid is taken in the application."""

    async def change_endpoint(self, endpoint_no: int, change: EndpointChange) -> Endpoint:
        """Raises the revision; the lane's copy of throttle and concurrency changes under its lock, and wakes."""

    async def set_endpoint_status(self, endpoint_no: int, status: EndpointStatus, cause: str) -> Endpoint:
        """Pause, resume, disable, enable. Resume starts the time budget of what was held anew and wakes the lane.

        Recorded as a `LaneEvent`. Deleting is `delete_endpoint`.
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

    # ── ingest ──
    async def ingest(self, batch: Sequence[NewMessage]) -> list[Accepted]:
        """Accept a batch: messages, their deliveries, wake tokens, keys. One answer per message, in order.

        Never writes lane rows. Two of one batch with the same event id or key: the first wins. A delivery's `expires_at`
        is acceptance (or `deliver_at`, if later) plus the max age of message, endpoint, event type or deployment, whichever
        comes first; its policy is the three overrides merged, NULL when there is none. Wakes sleeping workers (see `arm`).
        """

    # ── outbox ──
    async def relay(self, limit: int) -> RelayReport:
        """Move up to `limit` outbox rows of this database into messages and deliveries, in one transaction.

        Rows are taken by state under SKIP LOCKED, never by a cursor. A row that cannot become a message (no such
        application, anything that `catalogue.check_message` refuses) is set aside with its reason and never blocks the
        rest. An `event_id` that is taken is dropped: the message exists already.
        """

    # ── claim ──
    async def arm(self) -> bool:
        """Say that this worker is about to sleep. True: from now on `wait` hears of new work; look once more before it."""

    async def wait(self, timeout: float) -> None:
        """Sleep until new work may be there (a notification, `wake`, another process's commit) or the time is over."""

    def wake(self) -> None:
        """End the `wait` of this process; from any thread."""

    async def claim(self, want: int, *, held: Mapping[int, int], share: int) -> ClaimBatch:
        """Lease up to `want` due deliveries, lanes in turn, under a fresh claim token. See `flow/lane.py` for the rules.

        `held` says how many this worker already holds by endpoint, and `share` the most that one lane may hold of it.
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
        """Newest first. The iterator is the last id seen."""

    async def dead_letter(self, dead_id: int) -> DeadLetter | None: ...
    async def dead_stats(self, where: DeadFilter) -> DeadStats: ...
    async def replay(self, where: DeadFilter, limit: int = 1000) -> int:
        """Turn up to `limit` matching dead letters back into pending deliveries, oldest first; how many. Call until it is 0.

        Attempts 0, time budget anew from now, policy as it was, the delivery's id and history kept. Those of deleted and
        disabled endpoints are left alone: nothing would be sent. Those of paused ones are held until they are resumed.
        Wakes their lanes.
        """

    async def resolve(self, where: DeadFilter, note: str, limit: int = 1000) -> int:
        """Close up to `limit` matching dead letters with a note; how many."""

    async def replay_missing(self, endpoint_no: int, since: datetime, until: datetime, limit: int = 1000) -> int:
        """Deliveries for messages that match the endpoint now and never had one to it. Call until it is 0."""

    async def resend(self, endpoint_no: int, message_id: str) -> int | None:
        """A manual delivery of one message to one endpoint, whatever came before; its id. None: no such message or payload."""

    # ── views ──
    async def message(self, app_no: int, ref: str) -> Message | None:
        """By id or event id."""

    async def messages(self, app_no: int, page: Page) -> list[Message]:
        """Newest first, without payload."""

    async def message_by_id(self, message_id: str) -> Message | None: ...
    async def deliveries(self, message_id: str) -> list[Delivery]:
        """All of one message: open, done, dead."""

    async def attempts(self, message_id: str) -> list[Attempt]:
        """All of one message, oldest first."""

    async def endpoint_attempts(self, endpoint_no: int, page: Page) -> list[Attempt]:
        """Newest first; the iterator is an attempt id."""

    async def lanes(self, org_id: str | None = None, app_no: int | None = None) -> list[LaneView]: ...
    async def lane_view(self, endpoint_no: int) -> LaneView | None: ...
    async def lane_events(self, endpoint_no: int, limit: int = 100) -> list[LaneEvent]:
        """Newest first."""

    async def counts(self) -> Counts: ...
