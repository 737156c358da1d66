"""Dead letters."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hookline.api.wire.attempts import AttemptOut, attempt
from hookline.api.wire.base import In, Instant, Out, documented, fill
from hookline.api.wire.messages import MessageOut, message
from hookline.model import Attempt, DeadLetter, DeadStats, Message
from hookline.model.states import Reason
from hookline.rules.checks.catalogue import MAX_NOTE
from hookline.services.dead_letters import shown_id

Note = Annotated[str, documented(minLength=1, maxLength=MAX_NOTE), Meta(description="Why it needs no delivery; kept.")]

_NAMED = documented(maxLength=256, pattern=r"^[a-zA-Z0-9\-_.]+$")


class DeadFilterIn(In, frozen=True, kw_only=True):
    """All of the given fields must match; none: every open dead letter of the application."""

    endpoint_id: Annotated[str, _NAMED, Meta(description="Its id or uid.")] | None = None
    event_type: Annotated[str, _NAMED] | None = None
    reason: Reason | None = None
    after: Annotated[Instant, Meta(description="Died at or after.")] | None = None
    before: Annotated[Instant, Meta(description="Died before; without it: up to now.")] | None = None


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
    attempts: Annotated[int, Meta(description="That counted against the budget.")]
    sent: Annotated[int, Meta(description="All that were ever made.")]
    accepted_at: Instant
    died_at: Instant
    last_status: int | None
    resolved_at: Instant | None
    note: str | None


def dead_letter(found: DeadLetter) -> DeadLetterOut:
    return fill(DeadLetterOut, found, id=shown_id(found.id))


class DeadLetterHistoryOut(DeadLetterOut, frozen=True, kw_only=True):
    """A dead letter with its message and every attempt, oldest first; of more than 500, the last ones."""

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
    """The delivery that a dead letter has become again."""

    id: Annotated[str, Meta(description="The dead letter's: it has this id again if it dies once more.")]
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
    pending: Annotated[int, Meta(description="Sent again by hand (replay, recovery, resend) and still open.")]
    resolved: int
    by_reason: dict[str, int]
    by_application: Annotated[list[DeadOfApplicationOut], Meta(description="Those with the most.")]
    oldest_at: Annotated[Instant | None, Meta(description="When the first of the dead ones died.")]


def dead_stats(found: DeadStats) -> DeadStatsOut:
    by_application = [fill(DeadOfApplicationOut, each) for each in found.by_application]
    return fill(DeadStatsOut, found, by_application=by_application, oldest_at=found.oldest)
