"""Replay: which dead letters and messages a task sends again. The store reads the rows and carries out the decision.

A task reads dead letters in the order in which they died, or messages in the order of their ids. Each step reads a
limited number of rows, whether they match or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum

from msgspec import Struct

from hookline import ids
from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint
from hookline.model.states import DeliveryState, EndpointStatus, Reason
from hookline.model.tasks import Task, TaskKind, TaskWork
from hookline.rules.fanout import Target, matches

# Message ids contain the time of the process that made the id. This is the largest difference between the clock of that
# process and the clock of the database that a replay allows for. If the difference is larger, receivers reject the
# signatures anyway.
CLOCKS_APART = timedelta(hours=1)


# ── dead letters ──────────────────────────────────────────────────────────────────────────────────────────────────


class Letter(Struct, frozen=True, kw_only=True):
    """The fields of a dead letter that a replay task reads."""

    id: int
    died_at: datetime
    accepted_at: datetime
    event_type: str
    reason: Reason
    resolved: bool
    sendable: bool  # the endpoint accepts deliveries, and the payload still exists


def died_before(task: Task) -> datetime:
    """Return the time before which a delivery must have died to be replayed.

    It is at most the task's start. Otherwise the task would replay letters of a failing endpoint again and again.
    """
    until = task.work.died_until
    return task.created_at if until is None else min(until, task.created_at)


def wanted(work: TaskWork, letter: Letter) -> bool:
    """Return whether the task must handle this dead letter. The caller already limits the time of death."""
    return (
        not letter.resolved
        and (work.since is None or letter.accepted_at >= work.since)
        and (work.until is None or letter.accepted_at < work.until)
        and (work.event_types is None or letter.event_type in work.event_types)
        and (work.reason is None or letter.reason == work.reason)
    )


def filter_of(task: Task) -> DeadFilter | None:
    """Return a filter that selects the task's dead letters, so that the database can count them. None if no filter
    can."""
    work = task.work
    types = (None,) if work.event_types is None else work.event_types
    if task.kind not in (TaskKind.REPLAY_DEAD, TaskKind.RESOLVE_DEAD) or len(types) != 1:
        return None
    return DeadFilter(
        app_no=task.app_no,
        endpoint_no=task.endpoint_no,
        event_type=types[0],
        reason=work.reason,
        since=work.died_since,
        until=died_before(task),
    )


class Chosen(Struct, frozen=True, kw_only=True):
    """The dead letters that one step replays or resolves."""

    act: list[int]
    skipped: int

    @property
    def wanted(self) -> int:
        return len(self.act) + self.skipped


def choose(task: Task, letters: Iterable[Letter]) -> Chosen:
    matching = [letter for letter in letters if wanted(task.work, letter)]
    act = [letter.id for letter in matching if letter.sendable or task.kind == TaskKind.RESOLVE_DEAD]
    return Chosen(act=act, skipped=len(matching) - len(act))


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Seen(Struct, frozen=True, kw_only=True):
    """A message as a replay task reads it, with the state of its deliveries to the endpoint."""

    id: str
    created_at: datetime
    event_type: str
    channels: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    whole: bool  # the payload still exists
    open: bool
    delivered: bool
    dead_id: int | None


class Act(Enum):
    DELIVER = "deliver"  # create a new delivery
    REPLAY = "replay"  # replay the existing dead letter
    SKIP = "skip"


class Window(Struct, frozen=True, kw_only=True):
    """The time range of a replay: messages that were accepted at or after `since` and before `until`."""

    since: datetime
    until: datetime

    def first_id(self) -> str:
        return ids.first_at(ids.MESSAGE, self.since - CLOCKS_APART)

    def last_id(self) -> str:
        return ids.first_at(ids.MESSAGE, self.until + CLOCKS_APART)


def missing_window(since: datetime, until: datetime, now: datetime, retention_days: int) -> Window:
    """Return the time range from `since` to `until`, without the time before the retention period.

    Older deliveries may be deleted while their message still exists. The message would then look undelivered.
    """
    return Window(since=max(since, now - timedelta(days=retention_days)), until=until)


def target(endpoint: Endpoint) -> Target:
    return Target(
        endpoint_no=endpoint.no,
        event_types=None if endpoint.event_types is None else frozenset(endpoint.event_types),
        channels=None if endpoint.channels is None else frozenset(endpoint.channels),
    )


def missed(to: Target, window: Window, seen: Seen) -> bool:
    """Return whether the message matches the endpoint now and never had a delivery to it."""
    return (
        window.since <= seen.created_at < window.until
        and not (seen.open or seen.delivered or seen.dead_id is not None)
        and seen.whole
        and matches(to, seen.event_type, seen.channels)
    )


def again(work: TaskWork, window: Window, seen: Seen) -> Act | None:
    """Return how a bulk replay handles a message; None if the message does not match the task."""
    if not (window.since <= seen.created_at < window.until and _fits(work, seen)):
        return None
    if seen.dead_id is not None and work.outcome != DeliveryState.DELIVERED:
        act = Act.REPLAY
    elif seen.delivered and work.outcome != DeliveryState.DEAD:
        act = Act.DELIVER
    else:
        return None
    return Act.SKIP if seen.open or not seen.whole else act


def _fits(work: TaskWork, seen: Seen) -> bool:
    return (
        (work.event_types is None or seen.event_type in work.event_types)
        and (work.channel is None or work.channel in (seen.channels or ()))
        and (work.tag is None or work.tag in (seen.tags or ()))
    )


class Resent(Struct, frozen=True, kw_only=True):
    """The messages and dead letters that one step of a replay task sends again."""

    deliver: list[str]
    replay: list[int]
    skipped: int

    @property
    def wanted(self) -> int:
        return len(self.deliver) + len(self.replay) + self.skipped


def sort_out(task: Task, endpoint: Endpoint, window: Window, messages: Iterable[Seen]) -> Resent:
    if task.kind == TaskKind.REPLAY_MISSING:
        to = target(endpoint)
        return Resent(deliver=[each.id for each in messages if missed(to, window, each)], replay=[], skipped=0)
    acts = [(each, again(task.work, window, each)) for each in messages]
    return Resent(
        deliver=[each.id for each, act in acts if act == Act.DELIVER],
        replay=[each.dead_id for each, act in acts if act == Act.REPLAY and each.dead_id is not None],
        skipped=sum(act == Act.SKIP for _, act in acts),
    )


# ── dead letters and messages ──────────────────────────────────────────────────────────────────────────────────

ON_MESSAGES = frozenset({TaskKind.REPLAY_MISSING, TaskKind.BULK_REPLAY})


def refusal(status: EndpointStatus) -> str | None:
    """Return why a replay to this endpoint would send nothing; None if it would send."""
    match status:
        case EndpointStatus.DELETED:
            return "the endpoint was deleted"
        case EndpointStatus.DISABLED:
            return "the endpoint is disabled: nothing would be sent; enable it first"
    return None
