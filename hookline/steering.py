"""What people do to an endpoint's lane by hand, through the API and on the command line. Thin over the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from hookline import catalogue, texts
from hookline.errors import Conflict, InvalidInput
from hookline.model import (
    Actor,
    Endpoint,
    LaneEvent,
    LaneEventFilter,
    LaneEventKind,
    NewTask,
    Task,
    TaskFilter,
    TaskKind,
    TaskStatus,
    TaskWork,
)
from hookline.states import EndpointStatus
from hookline.store.base import Page, Store

LONGEST_OPEN = timedelta(days=30)
# A message whose transaction began before the endpoint was disabled may have found it disabled all the same.
_BEGAN_BEFORE = timedelta(minutes=1)
_REPLAYS = 250  # of an application, the newest ones, among which one that failed is looked for


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def set_disabled(store: Store, endpoint: Endpoint, disabled: bool, cause: str, actor: Actor) -> Endpoint:
    """One that is paused is not disabled, and stays paused."""
    if disabled == (endpoint.status == EndpointStatus.DISABLED):
        return endpoint
    status = EndpointStatus.DISABLED if disabled else EndpointStatus.ACTIVE
    return await store.set_endpoint_status(endpoint.no, status, cause, actor=actor)


async def pause(store: Store, endpoint: Endpoint, cause: str, actor: Actor) -> Endpoint:
    if endpoint.status == EndpointStatus.DISABLED:
        raise Conflict(f"{endpoint.id} is disabled: no deliveries are created for it, so there is nothing to pause")
    cause = catalogue.check_cause(cause)
    return await store.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, cause, actor=actor)


class Missed(Struct, frozen=True, kw_only=True):
    """Messages that match an endpoint and were not delivered to it, because it was disabled."""

    since: datetime
    messages: int | None  # None: too many to count
    task: Task | None = None  # that sends them


async def missed(store: Store, endpoint: Endpoint) -> Missed | None:
    """What `resume` would find, before it is done; None: it was never disabled."""
    missing = await _missing(store, endpoint)
    if missing is None or missing.work.since is None:
        return None
    return Missed(since=missing.work.since, messages=await store.task_total(missing))


class Resumed(Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    missed: Missed | None = None  # None: it was not disabled, so everything that came has waited for it


async def resume(
    store: Store, endpoint: Endpoint, cause: str, actor: Actor, *, replay_missing: bool = False
) -> Resumed:
    """One that was disabled is enabled. What it missed meanwhile is counted, and sent where that is asked for.

    Asked for once more, it sends what is still missing since the endpoint was last disabled.
    """
    cause = catalogue.check_cause(cause)
    missing = None
    if endpoint.status == EndpointStatus.DISABLED or replay_missing:
        missing = await _missing(store, endpoint)
    active = await store.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, cause, actor=actor)
    if missing is None or missing.work.since is None:
        return Resumed(endpoint=active)
    task = await _add(store, active, missing) if replay_missing else None
    total = await store.task_total(missing) if task is None else task.total
    return Resumed(endpoint=active, missed=Missed(since=missing.work.since, messages=total, task=task))


async def _missing(store: Store, endpoint: Endpoint) -> NewTask | None:
    """The task that makes up for the time since the endpoint was last disabled; None: it never was.

    What an earlier one was to send, and could not as the endpoint was disabled again, is still missing.
    """
    at = await _last_disabled(store, endpoint)
    if at is None and endpoint.status != EndpointStatus.DISABLED:
        return None
    since = endpoint.created_at if at is None else max(endpoint.created_at, at - _BEGAN_BEFORE)
    since = min([since, *_left_over(await _replays(store, endpoint))])
    return NewTask(
        org_id=endpoint.org_id,
        app_no=endpoint.app_no,
        endpoint_no=endpoint.no,
        kind=TaskKind.REPLAY_MISSING,
        work=TaskWork(since=since),
    )


async def _last_disabled(store: Store, endpoint: Endpoint) -> datetime | None:
    where, iterator = LaneEventFilter(kinds=(LaneEventKind.ENDPOINT_DISABLED,)), None
    while True:
        found = await store.timeline(endpoint.no, where, Page(limit=1, iterator=iterator))
        if found.rows:
            return found.rows[0].event.at
        if found.end is None:
            return None
        iterator = found.end


async def _replays(store: Store, endpoint: Endpoint) -> list[Task]:
    """Of everything that it missed since some instant, ended well or badly."""
    where = TaskFilter(
        org_id=endpoint.org_id,
        app_no=endpoint.app_no,
        kinds=(TaskKind.REPLAY_MISSING,),
        statuses=(TaskStatus.FINISHED, TaskStatus.FAILED),
    )
    found = await store.tasks(where, Page(limit=_REPLAYS))
    return [task for task in found if task.endpoint_no == endpoint.no and task.work == TaskWork(since=task.work.since)]


def _left_over(replays: Sequence[Task]) -> list[datetime]:
    """Since when those that failed were to send, where none that came later has done it."""
    done = [(task.created_at, task.work.since) for task in replays if task.status == TaskStatus.FINISHED]
    return [
        since
        for task in replays
        if task.status == TaskStatus.FAILED and (since := task.work.since) is not None
        if not any(at > task.created_at and begin is not None and begin <= since for at, begin in done)
    ]


async def _add(store: Store, endpoint: Endpoint, missing: NewTask) -> Task:
    try:
        return await store.add_task(missing)
    except Conflict as error:
        raise Conflict(f"{endpoint.id} is active, but what it missed is not on its way: {error}") from None


# ── circuit ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def open_circuit(
    store: Store, endpoint: Endpoint, cause: str, actor: Actor, *, until: datetime | None = None
) -> LaneEvent:
    """Without an end: for as long as after a failed probe."""
    if until is not None:
        _check_end(texts.check_instant("until", until), await store.now())
    return await store.open_circuit(endpoint.no, catalogue.check_cause(cause), until=until, actor=actor)


def _check_end(until: datetime, now: datetime) -> None:
    if until <= now:
        raise InvalidInput("is not in the future", field="until")
    if until - now > LONGEST_OPEN:
        raise InvalidInput(
            f"is more than {LONGEST_OPEN.days} days ahead; to stop for longer, pause the endpoint", field="until"
        )


async def close_circuit(store: Store, endpoint: Endpoint, cause: str, actor: Actor) -> LaneEvent | None:
    """None: it was not open."""
    return await store.close_circuit(endpoint.no, catalogue.check_cause(cause), actor=actor)


async def reset_circuit(store: Store, endpoint: Endpoint, cause: str, actor: Actor) -> LaneEvent | None:
    """None: there was nothing to reset."""
    return await store.reset_circuit(endpoint.no, catalogue.check_cause(cause), actor=actor)
