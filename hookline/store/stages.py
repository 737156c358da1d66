"""The protocols that each engine implements: the stages of the pipeline, the sweep, and the counts of open
deliveries, dead letters and outbox rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from hookline.model.deliveries import ClaimBatch, LeasedDelivery, Offer, SlotBudgets
from hookline.model.depths import Depths
from hookline.model.messages import Accepted, BatchAccepted, NewBatch, NewMessage
from hookline.model.outbox import OutboxPlace, OutboxRow, RelayReport
from hookline.model.sweep import SweepReport

# Returns a context in which messages are accepted, with the offer of a worker of this process to send their deliveries at
# once. If the block ends without an error, the worker sends the deliveries that the offer then has. See
# `engine/hand_over.py`.
HandOver = Callable[[Sequence[NewMessage]], AbstractContextManager[Offer | None]]


def no_hand_over(_: Sequence[NewMessage]) -> AbstractContextManager[None]:
    """Return a context without an offer, for a process without a worker."""
    return nullcontext()


class Ingest(Protocol):
    """Accept messages from callers."""

    async def ingest(self, batch: Sequence[NewMessage], offer: Offer | None = None) -> list[Accepted]:
        """Accept a batch: write messages, deliveries, wake tokens and idempotency keys. Return one result per message,
        in order.

        Never writes lane rows. If two messages of one batch have the same event id or idempotency key, only the
        first is accepted.
        The time budget of a delivery starts at its acceptance minus its time in an outbox, or at `deliver_at` if that
        is later. `expires_at` is this start plus the max age of the message, endpoint, event type or deployment: the
        first one of them that is set. The policy of a delivery merges the overrides of message, endpoint and event
        type; NULL if there are none. Wakes sleeping workers (see `arm`).

        Leases deliveries that a claim could lease now to the worker that made the offer, if their lanes have no limit,
        no failures and no other deliveries that wait. These deliveries get no wake token.
        """

    async def ingest_batch(self, batch: NewBatch) -> BatchAccepted:
        """Accept the batch of one caller in one transaction, as `ingest` does, under one idempotency key.

        The key stores the results and the refused items. A request with the same key and body gets the same answer,
        even if the reply to the first COMMIT was lost. Raises `NotFound` if the application does not exist; nothing is
        stored then. Raises `Conflict` if another process works on the same key for longer than a request may wait. No
        connection is held during that wait.
        """

    async def accepted_under(self, key: bytes, body: bytes) -> Accepted | None:
        """Return the answer that `ingest` would give to a message with this idempotency key: `REPLAYED` if the stored
        message has the same body, `KEY_REUSED` if it has another one. None: no message has this key."""


class Relay(Protocol):
    """Turn outbox rows, which applications wrote in their own transactions, into messages."""

    async def relay(self, limit: int, hand_over: HandOver | None = None) -> RelayReport:
        """Move up to `limit` outbox rows of this database into messages and deliveries, in one transaction.

        Rows are selected by state with SKIP LOCKED, never by a cursor. A row that cannot become a message (unknown
        application, or refused by `messages.check_message`) is set aside with its reason and does not block other
        rows. A row is dropped if its `event_id` is still stored for an earlier message of the application.
        """

    async def wait_outbox(self, timeout: float) -> None:
        """Sleep until this database's outbox may have rows, or until the timeout. It may return early."""

    async def leave_outbox(self) -> None:
        """Stop waiting for the outbox in this process, so that publishers notify another waiting process."""


class Copies(Protocol):
    """Accept rows that were copied from the outbox of another database."""

    async def take(
        self,
        rows: Sequence[OutboxRow],
        *,
        source: str,
        place: OutboxPlace | None = None,
        after: OutboxPlace | None = None,
    ) -> RelayReport | None:
        """Accept rows that were copied from another database's outbox, as `relay` does, in one transaction.

        Rows that cannot become messages are set aside in this database's outbox, once per event id. With `place`, the
        copy position of the source is moved from `after` to `place` in the same transaction. None: another process
        moved it first, and nothing was done.
        """

    async def place(self, source: str) -> OutboxPlace | None:
        """Return how far the source's outbox has been copied."""


class Claim(Protocol):
    """Lease due deliveries to a worker that has free slots."""

    async def arm(self) -> bool:
        """Register this worker as about to sleep. Claim once more before you wait.

        Return True if `wait` is notified of new work from now on. After False, `wait` may miss new work, so wait only
        for a short time.
        """

    async def wait(self, timeout: float) -> None:
        """Sleep until there may be new work (a notification, `wake`, a commit of another process), or until the
        timeout."""

    def wake(self) -> None:
        """End the `wait` of this process. Any thread may call this method."""

    async def claim(self, want: int, budgets: SlotBudgets) -> ClaimBatch:
        """Lease up to `want` due deliveries under a new claim token. `rules/claim/` has the fairness rules. A due
        delivery whose time budget is over becomes a dead letter.

        If `budgets` limits applications, `want` must be the number of all free slots of the worker, or three quarters of
        it in a process that accepts messages. The share of an application is computed from `want`.
        """

    async def release(self, jobs: Sequence[LeasedDelivery]) -> int:
        """Make unsent deliveries pending again, without counting an attempt. Deliveries whose claim is no longer valid
        are left out. Return the number of deliveries that became pending."""


class Upkeep(Protocol):
    """Do the periodic work: expired leases and time budgets, failing endpoints, retention."""

    async def sweep_leases(self, limit: int = 1000, *, overdue: float = 0.0) -> SweepReport:
        """Make deliveries pending again if their lease ended at least `overdue` seconds ago. They go to the end of
        their lane, and their slots become free. Does nothing if another worker is doing this.

        A lease that ends more than `FAR_LEASE` seconds from now counts as expired: it was made while the clock was
        ahead.
        """

    async def sweep_expired(self, limit: int = 1000) -> SweepReport:
        """Turn waiting deliveries past `expires_at` into dead letters with the reason `budget_exhausted`. Skips paused
        lanes."""

    async def sweep_deleted(self, limit: int = 1000) -> SweepReport:
        """Turn waiting deliveries of deleted or missing endpoints into dead letters with the reason
        `endpoint_deleted`, and delete wake tokens that have no lane."""

    async def sweep_failing(self, *, pause_dead: int, disable_after: float) -> SweepReport:
        """Pause endpoints with more than `pause_dead` dead letters in a day. Disable endpoints that have failed for
        `disable_after` seconds.

        An endpoint has failed since its first failure after the last success. It is disabled only if its circuit is
        not closed.
        """

    async def retire(self, limit: int = 5000) -> SweepReport:
        """Apply retention to history and dead letters, and delete expired rows, such as idempotency keys and sessions.
        Never remove the payload of an open or dead delivery.

        On SQLite, if the wall clock jumps by more than an hour while this process runs, this method deletes nothing
        for the next 24 hours.
        """

    async def sweep_clock(self, limit: int = 1000) -> SweepReport:
        """Store the time that the database's clock shows. If the clock was set back, move stored times that are in the
        future back too. This takes several calls: call again while the report has `set_back` or `moved`.

        On SQLite this method does nothing, because the clock of the store never goes back.
        """

    async def find_stuck_lanes(self, *, repair: bool) -> list[int]:
        """Return the endpoints with deliveries that would wait for ever: neither a wake token nor the end of a request
        in flight will make a claim look at them. The search is slow. With `repair`, wake the lanes of these
        endpoints."""


class DepthCount(Protocol):
    """Count open deliveries, dead letters and outbox rows."""

    async def depths(self, *, fresh: float = 0.0) -> Depths:
        """Count everything that is open (deliveries, dead letters, outbox rows). History is never counted.

        Counting takes longer the more is open, so results are cached: in this process on SQLite, in the database on
        PostgreSQL. A cached result is used for `fresh` seconds or for `COUNTING` times as long as counting took,
        whichever is longer, and while another process is counting. Only `fresh=0` ignores the cache, and always counts.
        """
