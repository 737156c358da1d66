"""Manual changes of the state of endpoints."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hookline.api.wire.base import Instant, Out, fill
from hookline.api.wire.endpoints import CauseIn, EndpointHealthOut
from hookline.api.wire.tasks import BackgroundTaskOut, task
from hookline.services.endpoint_state import LONGEST_OPEN, Missed

Seconds = Annotated[float, Meta(gt=0, le=LONGEST_OPEN.total_seconds(), description="For how long; instead of `until`.")]


class OpenIn(CauseIn, frozen=True, kw_only=True):
    until: Annotated[Instant, Meta(description="Nothing is sent before; then one probe.")] | None = None
    seconds: Seconds | None = None


class ResumeIn(CauseIn, frozen=True, kw_only=True):
    replay_missing: Annotated[bool, Meta(description="Send what it missed since it was last disabled, too.")] = False


class MissedOut(Out, frozen=True, kw_only=True):
    """Messages that match the endpoint and have no delivery to it; `replay-missing` with this `since` makes them."""

    since: Instant
    messages: Annotated[int | None, Meta(description="How many; null where they are too many to count.")]
    task: Annotated[BackgroundTaskOut | None, Meta(description="That sends them, where that was asked for.")]


class ResumedOut(EndpointHealthOut, frozen=True, kw_only=True):
    """The health that follows, and what was missed."""

    missed: Annotated[MissedOut | None, Meta(description="Null: it was not disabled; what came meanwhile has waited.")]


def resumed(health: EndpointHealthOut, lost: Missed | None) -> ResumedOut:
    return fill(ResumedOut, health, missed=missed(lost))


def missed(lost: Missed | None) -> MissedOut | None:
    if lost is None:
        return None
    return fill(MissedOut, lost, task=None if lost.task is None else task(lost.task))
