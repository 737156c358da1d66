"""The flow, left to right."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from hookline.model import (
    Accepted,
    BatchAccepted,
    ClaimBatch,
    LeasedDelivery,
    NewBatch,
    NewMessage,
    OutboxPlace,
    OutboxRow,
    OutboxView,
    RecordReport,
    RelayReport,
    Result,
    SetAside,
    SlotBudgets,
    SweepReport,
)
from hookline.model.audit import Note
from hookline.store.protocols.pages import Page


class Ingest(Protocol):
    """Messages that callers bring."""

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


class Outbox(Protocol):
    """Messages that transactions wrote."""

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

    async def retry_set_aside(self, ids: Sequence[int] | None, *, note: Note[int] | None = None) -> int:
        """Put them (None: all) back into the outbox, to be relayed anew; how many there were."""

    async def discard_set_aside(self, ids: Sequence[int], *, note: Note[int] | None = None) -> int:
        """Forget them for good; how many there were."""


class Claim(Protocol):
    """Deliveries for a worker that has free slots."""

    async def arm(self) -> bool:
        """Say that this worker is about to sleep. True: from now on `wait` hears of new work; look once more before it."""

    async def wait(self, timeout: float) -> None:
        """Sleep until new work may be there (a notification, `wake`, another process's commit) or the time is over."""

    def wake(self) -> None:
        """End the `wait` of this process; from any thread."""

    async def claim(self, want: int, budgets: SlotBudgets) -> ClaimBatch:
        """Lease up to `want` due deliveries under a fresh claim token. `rules/claim/` has the rules of fairness.

        Where `budgets` limits applications, `want` must be all free slots of the worker.
        """

    async def release(self, jobs: Sequence[LeasedDelivery]) -> int:
        """Give back what was not sent: pending again, no attempt spent, fenced; the number that was still ours."""


class Record(Protocol):
    """Outcomes."""

    async def record(self, results: Sequence[Result], *, wake: Collection[int] = ()) -> RecordReport:
        """Write outcomes: attempts, deliveries moved on, lane health folded in the given order, tokens. Fenced, one transaction.

        A batch that fails on its data is bisected down to the bad row. That row is tried once more without what the
        endpoint sent (headers, body, detail) and with its times in bounds, so that the delivery still moves on; if even that
        fails the delivery is buried as dead, `unsendable`, in a transaction of its own, and is in `refused`.
        `wake` names endpoints that waited for slots of this worker: each gets a wake token for now.
        """


class Sweep(Protocol):
    """What time does: leases, budgets, failing endpoints, retention."""

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
