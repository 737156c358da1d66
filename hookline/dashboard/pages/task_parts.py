"""Parts that show a task: its kind, progress and result. Used on the task page, in lists, and on the dead letters page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from hookline.dashboard import components
from hookline.dashboard.page_context import PageContext
from hookline.model import Task, TaskFilter, TaskKind, TaskStatus
from hookline.rules.checks.text import lasting
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, join, tag

MAX_RUNNING = 5  # running tasks on the dead letters page

_VERBS = {
    TaskKind.RECOVER: "Recover",
    TaskKind.REPLAY_MISSING: "Replay missing",
    TaskKind.BULK_REPLAY: "Bulk replay",
    TaskKind.REPLAY_DEAD: "Replay dead letters",
    TaskKind.RESOLVE_DEAD: "Resolve dead letters",
}
_SHADES = {
    TaskStatus.RUNNING: "pending",
    TaskStatus.FINISHED: "delivered",
    TaskStatus.FAILED: "dead",
    TaskStatus.CANCELED: "resolved",
}


def verb(task: Task) -> str:
    return _VERBS[task.kind]


def state(task: Task) -> Safe:
    return components.state(_SHADES[task.status], task.status.value)


def processed(task: Task) -> int:
    """Return the number of matches processed so far."""
    return task.done + task.skipped


def bar(task: Task) -> Safe:
    """Return the progress bar. A finished task has a full bar, even if another task changed some of the counted matches."""
    if task.status == TaskStatus.FINISHED:
        return components.progress(max(1, processed(task)), max(1, processed(task)), verb(task))
    return components.progress(processed(task), task.total, verb(task))


def numbers(task: Task) -> str:
    of = "" if task.total is None else f" of {max(task.total, processed(task)):,}"
    skipped = f", {task.skipped:,} skipped" if task.skipped else ""
    return f"{task.done:,}{of}{skipped}"


def rate(task: Task, now: datetime) -> float | None:
    """Return the matches processed per second. None: the task has just started."""
    until = now if task.status == TaskStatus.RUNNING else task.updated_at
    seconds = (until - task.created_at).total_seconds()
    return processed(task) / seconds if seconds >= 1 and processed(task) else None


def pace(task: Task, now: datetime) -> str | None:
    """Return a text such as `120 per second, about 40 s left`."""
    found = rate(task, now)
    if found is None:
        return None
    speed = f"{found:,.0f} per second" if found >= 1 else f"{found * 60:,.1f} per minute"
    if task.status != TaskStatus.RUNNING or task.total is None or task.total <= processed(task):
        return speed
    return f"{speed}, about {lasting(max(1.0, (task.total - processed(task)) / found))} left"


def stop(context: PageContext, task: Task) -> Safe | None:
    if task.status != TaskStatus.RUNNING:
        return None
    return components.button(context, context.link(f"/tasks/{task.id}/stop"), "Stop", label=f"Stop {task.id}")


def filter_of(context: PageContext, *statuses: TaskStatus) -> TaskFilter:
    return TaskFilter(org_id=context.org_id, app_no=context.app_no, statuses=statuses or None)


async def running(context: PageContext) -> Safe | None:
    """Return the running tasks with their progress."""
    found = await context.store.repair.tasks(filter_of(context, TaskStatus.RUNNING), Rows(limit=MAX_RUNNING))
    return tag("section", *(_line(context, task) for task in found), aria_label="Running tasks") if found else None


def _line(context: PageContext, task: Task) -> Safe:
    name = tag("a", verb(task), href=context.link(f"/tasks/{task.id}"))
    return tag("div", name, bar(task), tag("span", numbers(task)), stop(context, task), class_="task", data_key=task.id)


async def table(context: PageContext, tasks: Sequence[Task]) -> Safe:
    names = await context.names(task.app_id for task in tasks)
    columns: list[Child] = ["Task", "Status", "Progress", "Done", "Endpoint", "Started"]
    if context.app is None:
        columns.insert(5, "Application")
    if context.may_change:
        columns.append(tag("span", "Actions", class_="unseen"))
    return components.table(
        columns,
        [_row(context, task, names) for task in tasks],
        caption="Tasks, newest first",
        keys=[task.id for task in tasks],
        numeric=(3,),
    )


def _row(context: PageContext, task: Task, names: Mapping[str, str]) -> list[Child]:
    endpoint = (
        join("all")
        if task.endpoint_id is None
        else components.ident(task.endpoint_id, href=context.link(f"/endpoints/{task.endpoint_id}"), most=16)
    )
    row: list[Child] = [
        tag("a", verb(task), href=context.link(f"/tasks/{task.id}")),
        state(task),
        bar(task),
        numbers(task),
        endpoint,
        components.ago(task.created_at, context.now),
    ]
    if context.app is None:
        row.insert(5, tag("a", names.get(task.app_id, task.app_id), href=context.link(f"/applications/{task.app_id}")))
    if context.may_change:
        row.append(stop(context, task))
    return row
