"""Manual changes of the state of endpoints."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hookline.api.wire.base import Instant, Out, doc, fill
from hookline.api.wire.endpoints import CauseIn, EndpointHealthOut
from hookline.api.wire.tasks import BackgroundTaskOut, task
from hookline.services.endpoint_state import LONGEST_OPEN, Missed

Seconds = Annotated[float, Meta(gt=0, le=LONGEST_OPEN.total_seconds(), description="How long, instead of `until`.")]


class OpenIn(CauseIn, frozen=True, kw_only=True):
    until: Annotated[Instant, doc("Send nothing before this time, and then one probe.")] | None = None
    seconds: Seconds | None = None


class ResumeIn(CauseIn, frozen=True, kw_only=True):
    replay_missing: Annotated[bool, doc("Also send the messages that it missed since it was last disabled.")] = False


class MissedOut(Out, frozen=True, kw_only=True):
    """Messages that match the endpoint and have no delivery to it. `replay-missing` with this `since` sends them."""

    since: Instant
    messages: Annotated[int | None, doc("Number of messages; null if there are too many to count.")]
    task: Annotated[BackgroundTaskOut | None, doc("The task that sends them, if it was requested.")]


class ResumedOut(EndpointHealthOut, frozen=True, kw_only=True):
    """The delivery state after the resume, and the messages that the endpoint missed."""

    missed: Annotated[MissedOut | None, doc("Null if it was not disabled. Messages of a paused endpoint have waited.")]


def resumed(health: EndpointHealthOut, lost: Missed | None) -> ResumedOut:
    return fill(ResumedOut, health, missed=missed(lost))


def missed(lost: Missed | None) -> MissedOut | None:
    if lost is None:
        return None
    return fill(MissedOut, lost, task=None if lost.task is None else task(lost.task))
