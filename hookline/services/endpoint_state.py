"""Manual changes of an endpoint's state: pause, resume and disable it; open, close and reset its circuit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from hookline.errors import Conflict, InvalidInput
from hookline.model.callers import Caller
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import LaneEvent, LaneEventFilter, LaneEventKind
from hookline.model.states import EndpointStatus
from hookline.model.tasks import NewTask, Task, TaskFilter, TaskKind, TaskStatus, TaskWork
from hookline.rules.checks import text as text_checks
from hookline.services import audit, lane_events, lookup, replays, tasks
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef
from hookline.store import Page, Store

LONGEST_OPEN = timedelta(days=30)
# The time of a message is the start of its transaction. A transaction can start before the endpoint is disabled, and
# read the endpoint after that. So the search for missed messages starts this much before the endpoint was disabled.
_BEGAN_BEFORE = timedelta(minutes=1)
_REPLAYS = 250  # maximum number of tasks, newest first, that are searched for failed replays


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def pause(deps: Deps, by: Caller, ref: EndpointRef, cause: str | None = None) -> Endpoint:
    """Pause the endpoint. Without a cause, the timeline says whether the API, the dashboard or a command paused it."""
    cause, endpoint = _cause(by, cause, "paused"), await lookup.endpoint(deps, by, ref)
    if endpoint.status == EndpointStatus.DISABLED:
        raise Conflict(f"{endpoint.id} is disabled: no deliveries are created for it, so there is nothing to pause")
    return await _set_status(deps, by, endpoint, EndpointStatus.PAUSED, cause, "pause")


async def disable(deps: Deps, by: Caller, ref: EndpointRef, cause: str | None = None) -> Endpoint:
    """Disable the endpoint. Does nothing if it is disabled already."""
    cause, endpoint = _cause(by, cause, "disabled"), await lookup.endpoint(deps, by, ref)
    if endpoint.status == EndpointStatus.DISABLED:
        return endpoint
    return await _set_status(deps, by, endpoint, EndpointStatus.DISABLED, cause, "disable")


async def set_disabled(deps: Deps, by: Caller, endpoint: Endpoint, disabled: bool) -> Endpoint:
    """Disable or enable the endpoint as part of an edit. `disabled=False` leaves a paused endpoint paused."""
    if disabled == (endpoint.status == EndpointStatus.DISABLED):
        return endpoint
    status = EndpointStatus.DISABLED if disabled else EndpointStatus.ACTIVE
    cause = _cause(by, None, "disabled" if disabled else "enabled")
    return await _set_status(deps, by, endpoint, status, cause, "edit", "status")


class Missed(Struct, frozen=True, kw_only=True):
    """Messages that match an endpoint but have no delivery to it, because it was disabled."""

    since: datetime
    messages: int | None  # None: too many to count
    task: Task | None = None  # the task that sends these messages


async def missed(deps: Deps, by: Caller, ref: EndpointRef) -> Missed | None:
    """Count the messages that `resume` can replay. Return None if the endpoint was never disabled."""
    endpoint = await lookup.endpoint(deps, by, ref)
    since = await _missing_since(deps.store, endpoint)
    if since is None:
        return None
    return Missed(since=since, messages=await deps.store.repair.task_total(_task(endpoint, since)))


class Resumed(Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    missed: Missed | None = None  # None: the endpoint was not disabled, so it missed nothing


async def resume(
    deps: Deps, by: Caller, ref: EndpointRef, cause: str | None = None, *, replay_missing: bool = False
) -> Resumed:
    """Resume a paused endpoint or enable a disabled one. Count the messages that it missed while it was disabled.

    `replay_missing` also creates the task that sends these messages. Another call with `replay_missing` sends the
    messages that are still missing since the endpoint was last disabled.
    """
    cause, endpoint = _cause(by, cause, "resumed"), await lookup.endpoint(deps, by, ref)
    asked = endpoint.status == EndpointStatus.DISABLED or replay_missing
    since = await _missing_since(deps.store, endpoint) if asked else None
    active = await _set_status(deps, by, endpoint, EndpointStatus.ACTIVE, cause, "resume")
    if since is None:
        return Resumed(endpoint=active)
    task = await _add(deps, by, active, since) if replay_missing else None
    total = await deps.store.repair.task_total(_task(active, since)) if task is None else task.total
    return Resumed(endpoint=active, missed=Missed(since=since, messages=total, task=task))


def _task(endpoint: Endpoint, since: datetime) -> NewTask:
    return replays.task(endpoint, TaskKind.REPLAY_MISSING, TaskWork(since=since))


async def _missing_since(store: Store, endpoint: Endpoint) -> datetime | None:
    """Return the time since which messages are missing, or None if the endpoint was never disabled.

    This is the time when the endpoint was last disabled. It is earlier if a replay of earlier messages failed.
    """
    at = await _last_disabled(store, endpoint)
    if at is None and endpoint.status != EndpointStatus.DISABLED:
        return None
    since = endpoint.created_at if at is None else max(endpoint.created_at, at - _BEGAN_BEFORE)
    return min([since, *_left_over(await _replays(store, endpoint))])


async def _last_disabled(store: Store, endpoint: Endpoint) -> datetime | None:
    where = LaneEventFilter(kinds=(LaneEventKind.ENDPOINT_DISABLED,))
    return next((entry.event.at for entry in await lane_events.latest(store, endpoint.no, where, 1)), None)


async def _replays(store: Store, endpoint: Endpoint) -> list[Task]:
    """Return the tasks that replay all messages that the endpoint missed since a time, the task's `work.since`.

    Only tasks that finished or failed are returned. Tasks that replay a selection, such as one event type, are left
    out.
    """
    where = TaskFilter(
        org_id=endpoint.org_id,
        app_no=endpoint.app_no,
        kinds=(TaskKind.REPLAY_MISSING,),
        statuses=(TaskStatus.FINISHED, TaskStatus.FAILED),
    )
    found = await store.repair.tasks(where, Page(limit=_REPLAYS))
    return [task for task in found if task.endpoint_no == endpoint.no and task.work == TaskWork(since=task.work.since)]


def _left_over(replays: Sequence[Task]) -> list[datetime]:
    """Return the `since` of each failed task whose messages no later task has replayed."""
    done = [(task.created_at, task.work.since) for task in replays if task.status == TaskStatus.FINISHED]
    return [
        since
        for task in replays
        if task.status == TaskStatus.FAILED and (since := task.work.since) is not None
        if not any(at > task.created_at and begin is not None and begin <= since for at, begin in done)
    ]


async def _add(deps: Deps, by: Caller, endpoint: Endpoint, since: datetime) -> Task:
    try:
        return await tasks.add(deps, by, _task(endpoint, since), f"since {since.isoformat()}")
    except Conflict as error:
        raise Conflict(f"{endpoint.id} is active, but what it missed is not on its way: {error}") from None


# ── circuit ───────────────────────────────────────────────────────────────────────────────────────────────────────


class CircuitChange(Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    event: LaneEvent | None  # None: nothing changed


async def open_circuit(
    deps: Deps, by: Caller, ref: EndpointRef, cause: str | None = None, *, until: datetime | timedelta | None = None
) -> CircuitChange:
    """Open the circuit until a time or for a duration. If `until` is None, the circuit policy decides how long."""
    cause, endpoint = _cause(by, cause, "opened"), await lookup.endpoint(deps, by, ref)
    end = None if until is None else _end(until, await deps.store.now())
    change = partial(deps.store.catalogue.open_circuit, until=end)
    return await _change_circuit(by, endpoint, cause, "open_circuit", change)


def _end(until: datetime | timedelta, now: datetime) -> datetime:
    end = now + until if isinstance(until, timedelta) else text_checks.check_instant("until", until)
    if end <= now:
        raise InvalidInput("is not in the future", field="until")
    if end - now > LONGEST_OPEN:
        words = f"is more than {LONGEST_OPEN.days} days ahead; to stop for longer, pause the endpoint"
        raise InvalidInput(words, field="until")
    return end


async def close_circuit(deps: Deps, by: Caller, ref: EndpointRef, cause: str | None = None) -> CircuitChange:
    cause, endpoint = _cause(by, cause, "closed"), await lookup.endpoint(deps, by, ref)
    return await _change_circuit(by, endpoint, cause, "close_circuit", deps.store.catalogue.close_circuit)


async def reset_circuit(deps: Deps, by: Caller, ref: EndpointRef, cause: str | None = None) -> CircuitChange:
    cause, endpoint = _cause(by, cause, "reset"), await lookup.endpoint(deps, by, ref)
    return await _change_circuit(by, endpoint, cause, "reset_circuit", deps.store.catalogue.reset_circuit)


async def _change_circuit(
    by: Caller, endpoint: Endpoint, cause: str, verb: str, change: Callable[..., Awaitable[LaneEvent | None]]
) -> CircuitChange:
    entry = audit.endpoint_entry(by, verb, endpoint, cause)
    event = await change(endpoint.no, cause, actor=by.actor, note=lambda event: None if event is None else entry)
    return CircuitChange(endpoint=endpoint, event=event)


# ── used for changes of status and circuit ────────────────────────────────────────────────────────────────────────


def _cause(by: Caller, given: str | None, verb: str) -> str:
    return f"{verb} {by.origin}" if given is None else text_checks.check_text("cause", given, 500, shortest=1)


async def _set_status(
    deps: Deps, by: Caller, endpoint: Endpoint, status: EndpointStatus, cause: str, verb: str, detail: str | None = None
) -> Endpoint:
    entry = audit.endpoint_entry(by, verb, endpoint, cause if detail is None else detail)
    return await deps.store.catalogue.set_endpoint_status(
        endpoint.no, status, cause, actor=by.actor, note=lambda _: entry
    )
