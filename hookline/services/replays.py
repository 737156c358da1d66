"""Send messages of a time range to an endpoint again. Each action creates a task that workers do in steps."""

from __future__ import annotations

from datetime import datetime

from hookline.errors import Conflict, InvalidInput
from hookline.model.callers import Caller
from hookline.model.endpoints import Endpoint
from hookline.model.tasks import NewTask, Task, TaskKind, TaskWork
from hookline.rules.checks import catalogue
from hookline.rules.checks import text as text_checks
from hookline.rules.replay import refusal
from hookline.services import lookup, tasks
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef


async def recover(deps: Deps, by: Caller, ref: EndpointRef, since: datetime, until: datetime | None = None) -> Task:
    """Replay the endpoint's dead letters whose messages were accepted between `since` and `until`."""
    return await _add(deps, by, ref, TaskKind.RECOVER, TaskWork(since=since, until=until, died_since=since))


async def replay_missing(
    deps: Deps, by: Caller, ref: EndpointRef, since: datetime, until: datetime | None = None
) -> Task:
    """Send messages of the time range that match the endpoint now and never had a delivery to it."""
    return await _add(deps, by, ref, TaskKind.REPLAY_MISSING, TaskWork(since=since, until=until))


async def bulk_replay(deps: Deps, by: Caller, ref: EndpointRef, work: TaskWork) -> Task:
    """Send messages again that were delivered to the endpoint or became dead letters there."""
    catalogue.check_selection(work)
    return await _add(deps, by, ref, TaskKind.BULK_REPLAY, work)


async def count(deps: Deps, by: Caller, ref: EndpointRef, kind: TaskKind, since: datetime) -> int | None:
    """Return the number of messages that `recover` or `replay_missing` would send. None: too many to count."""
    work = TaskWork(since=since, died_since=since if kind == TaskKind.RECOVER else None)
    await _check_times(deps, work)
    return await deps.store.repair.task_total(task(await lookup.endpoint(deps, by, ref), kind, work))


async def _add(deps: Deps, by: Caller, ref: EndpointRef, kind: TaskKind, work: TaskWork) -> Task:
    await _check_times(deps, work)
    endpoint = await lookup.endpoint(deps, by, ref)
    refused = refusal(endpoint.status)
    if refused is not None:
        raise Conflict(refused)
    return await tasks.add(deps, by, task(endpoint, kind, work), _span(work))


def task(endpoint: Endpoint, kind: TaskKind, work: TaskWork) -> NewTask:
    return NewTask(org_id=endpoint.org_id, app_no=endpoint.app_no, endpoint_no=endpoint.no, kind=kind, work=work)


async def _check_times(deps: Deps, work: TaskWork) -> None:
    assert work.since is not None
    if text_checks.check_instant("since", work.since) >= await deps.store.now():
        raise InvalidInput("is not in the past", field="since")
    if work.until is not None and text_checks.check_instant("until", work.until) <= work.since:
        raise InvalidInput("is not after since", field="until")


def _span(work: TaskWork) -> str:
    """Return the time range as a text for the audit log."""
    assert work.since is not None
    until = "" if work.until is None else f" until {work.until.isoformat()}"
    return f"since {work.since.isoformat()}{until}"
