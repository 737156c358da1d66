"""Replay: what a task works through, and which of it is sent again. Pure; the stores look and act.

A task walks over dead letters in the order in which they died, or over messages in the order of their ids, and looks at a
bounded number in each step, whether they match or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum

from msgspec import Struct

from hookline import ids
from hookline.model import DeadFilter, Endpoint, Task, TaskKind, TaskWork
from hookline.model.states import DeliveryState, EndpointStatus, Reason
from hookline.rules.fanout import Target, matches

# Between the clock that made a message's id and the database's. One that is further off signs nothing that a receiver takes.
CLOCKS_APART = timedelta(hours=1)


# ── dead letters ──────────────────────────────────────────────────────────────────────────────────────────────────


class Letter(Struct, frozen=True, kw_only=True):
    """A dead letter as a walk sees it."""

    id: int
    died_at: datetime
    accepted_at: datetime
    event_type: str
    reason: Reason
    resolved: bool
    sendable: bool  # its endpoint takes deliveries, and its payload is there


def died_before(task: Task) -> datetime:
    """What dies while the task runs is not its business, or a sick endpoint's letters would go round for ever."""
    until = task.work.died_until
    return task.created_at if until is None else min(until, task.created_at)


def wanted(work: TaskWork, letter: Letter) -> bool:
    """Within the span in which letters died, which bounds the walk itself."""
    return (
        not letter.resolved
        and (work.since is None or letter.accepted_at >= work.since)
        and (work.until is None or letter.accepted_at < work.until)
        and (work.event_types is None or letter.event_type in work.event_types)
        and (work.reason is None or letter.reason == work.reason)
    )


def filter_of(task: Task) -> DeadFilter | None:
    """What a task wants of the dead letters, where a filter can say it: then the database counts them by itself."""
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
    """What one step does with the dead letters that it saw."""

    act: list[int]
    skipped: int

    @property
    def wanted(self) -> int:
        return len(self.act) + self.skipped


def choose(task: Task, letters: Iterable[Letter]) -> Chosen:
    found = [letter for letter in letters if wanted(task.work, letter)]
    act = [letter.id for letter in found if letter.sendable or task.kind == TaskKind.RESOLVE_DEAD]
    return Chosen(act=act, skipped=len(found) - len(act))


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Seen(Struct, frozen=True, kw_only=True):
    """A message as a walk sees it, with what became of it at the endpoint."""

    id: str
    created_at: datetime
    event_type: str
    channels: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    whole: bool  # its payload is there
    open: bool
    delivered: bool
    dead_id: int | None


class Act(Enum):
    DELIVER = "deliver"  # a delivery of its own
    REPLAY = "replay"  # the dead letter that it left
    SKIP = "skip"


class Window(Struct, frozen=True, kw_only=True):
    """When the messages were accepted."""

    since: datetime
    until: datetime

    def first_id(self) -> str:
        return ids.first_at(ids.MESSAGE, self.since - CLOCKS_APART)

    def last_id(self) -> str:
        return ids.first_at(ids.MESSAGE, self.until + CLOCKS_APART)


def missing_window(since: datetime, until: datetime, now: datetime, retention_days: int) -> Window:
    """Not before what retention has left: a message may outlive the note of its delivery."""
    return Window(since=max(since, now - timedelta(days=retention_days)), until=until)


def target(endpoint: Endpoint) -> Target:
    return Target(
        endpoint_no=endpoint.no,
        event_types=None if endpoint.event_types is None else frozenset(endpoint.event_types),
        channels=None if endpoint.channels is None else frozenset(endpoint.channels),
    )


def missed(to: Target, window: Window, seen: Seen) -> bool:
    """It matches the endpoint now, and never had a delivery to it."""
    return (
        window.since <= seen.created_at < window.until
        and not (seen.open or seen.delivered or seen.dead_id is not None)
        and seen.whole
        and matches(to, seen.event_type, seen.channels)
    )


def again(work: TaskWork, window: Window, seen: Seen) -> Act | None:
    """A bulk replay: what was delivered or died there is sent once more; None where that was not asked for."""
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
    """What one step does with the messages that it saw."""

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


# ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────

ON_MESSAGES = frozenset({TaskKind.REPLAY_MISSING, TaskKind.BULK_REPLAY})


def refusal(status: EndpointStatus) -> str | None:
    """Why nothing would be sent to an endpoint, however much is replayed; None where something would."""
    match status:
        case EndpointStatus.DELETED:
            return "the endpoint was deleted"
        case EndpointStatus.DISABLED:
            return "the endpoint is disabled: nothing would be sent; enable it first"
    return None
