"""The JSON shapes of dead letters."""

from __future__ import annotations

from typing import Annotated

from hookline.api.wire.attempts import AttemptOut, attempt
from hookline.api.wire.base import In, Instant, Out, doc, fill
from hookline.api.wire.messages import MessageOut, message
from hookline.model.attempts import Attempt
from hookline.model.dead import DeadLetter, DeadStats
from hookline.model.messages import Message
from hookline.model.states import Reason
from hookline.rules.checks.catalogue import MAX_NOTE
from hookline.services.dead_letters import shown_id

Note = Annotated[str, doc("Why it needs no delivery. The note is stored.", minLength=1, maxLength=MAX_NOTE)]

_NAMED = doc(maxLength=256, pattern=r"^[a-zA-Z0-9\-_.]+$")


class DeadFilterIn(In, frozen=True, kw_only=True):
    """A filter for the application's unresolved dead letters. All given fields must match. Without fields all match."""

    endpoint_id: Annotated[str, _NAMED, doc("The endpoint's id or uid.")] | None = None
    event_type: Annotated[str, _NAMED] | None = None
    reason: Reason | None = None
    after: Annotated[Instant, doc("Died at or after this instant.")] | None = None
    before: Annotated[Instant, doc("Died before this instant. The default is now.")] | None = None


class ResolveManyIn(DeadFilterIn, frozen=True, kw_only=True):
    note: Note


class ResolveIn(In, frozen=True, kw_only=True):
    note: Note


class DeadLetterOut(Out, frozen=True, kw_only=True):
    id: str
    app_id: str
    endpoint_id: str
    endpoint_url: str
    message_id: str
    event_type: str
    reason: Reason
    detail: str
    attempts: Annotated[int, doc("Attempts that counted against the maximum.")]
    sent: Annotated[int, doc("All attempts, also those before a replay.")]
    accepted_at: Instant
    died_at: Instant
    last_status: int | None
    resolved_at: Instant | None
    note: str | None


def dead_letter(found: DeadLetter) -> DeadLetterOut:
    return fill(DeadLetterOut, found, id=shown_id(found.id))


class DeadLetterHistoryOut(DeadLetterOut, frozen=True, kw_only=True):
    """A dead letter with its message and its last attempts, at most 500, oldest first."""

    message: MessageOut | None
    history: list[AttemptOut]


def history(found: DeadLetter, of: Message | None, attempts: list[Attempt]) -> DeadLetterHistoryOut:
    return fill(
        DeadLetterHistoryOut,
        found,
        id=shown_id(found.id),
        message=None if of is None else message(of),
        history=[attempt(each) for each in attempts],
    )


class ReplayedOut(Out, frozen=True, kw_only=True):
    """The delivery after the replay of its dead letter. It is open again."""

    id: Annotated[str, doc("The id of the dead letter. It gets the same id if it fails again.")]
    app_id: str
    endpoint_id: str
    message_id: str
    state: str


def replayed(found: DeadLetter) -> ReplayedOut:
    return fill(ReplayedOut, found, id=shown_id(found.id), state="pending")


class DeadOfApplicationOut(Out, frozen=True, kw_only=True):
    app_id: str
    dead: int


class DeadStatsOut(Out, frozen=True, kw_only=True):
    dead: int
    pending: Annotated[int, doc("Deliveries of a replay, recovery or resend that are still open.")]
    resolved: int
    by_reason: dict[str, int]
    by_application: Annotated[list[DeadOfApplicationOut], doc("The applications with the most dead letters.")]
    oldest_at: Annotated[Instant | None, doc("Time of the oldest open dead letter.")]


def dead_stats(found: DeadStats) -> DeadStatsOut:
    by_application = [fill(DeadOfApplicationOut, each) for each in found.by_application]
    return fill(DeadStatsOut, found, by_application=by_application, oldest_at=found.oldest)
