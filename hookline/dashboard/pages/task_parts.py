"""Parts that show a task: its kind, progress and result.

The task pages and the dead letters page use these parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hookline.dashboard import components
from hookline.dashboard.page_context import PageContext
from hookline.model.tasks import Task, TaskFilter, TaskKind, TaskStatus
from hookline.rules.checks.text import lasting
from hookline.store import Page as Rows
from hookline.web.html import Child, Safe, tag

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
    """Return how many matching messages or dead letters the task has processed so far."""
    return task.done + task.skipped


def bar(task: Task) -> Safe:
    """Return the progress bar.

    A finished task has a full bar, even if another task changed some of the counted messages or dead letters.
    """
    if task.status == TaskStatus.FINISHED:
        return components.progress(max(1, processed(task)), max(1, processed(task)), verb(task))
    return components.progress(processed(task), task.total, verb(task))


def numbers(task: Task) -> str:
    of = "" if task.total is None else f" of {max(task.total, processed(task)):,}"
    skipped = f", {task.skipped:,} skipped" if task.skipped else ""
    return f"{task.done:,}{of}{skipped}"


def pace(task: Task, now: datetime) -> str | None:
    """Return a text such as `120 per second, about 40 s left`. None: the task has just started."""
    until = now if task.status == TaskStatus.RUNNING else task.updated_at
    seconds = (until - task.created_at).total_seconds()
    if seconds < 1 or not processed(task):
        return None
    rate = processed(task) / seconds
    speed = f"{rate:,.0f} per second" if rate >= 1 else f"{rate * 60:,.1f} per minute"
    if task.status != TaskStatus.RUNNING or task.total is None or task.total <= processed(task):
        return speed
    return f"{speed}, about {lasting(max(1.0, (task.total - processed(task)) / rate))} left"


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
    name = context.anchor(verb(task), f"/tasks/{task.id}")
    return tag("div", name, bar(task), tag("span", numbers(task)), stop(context, task), class_="task", data_key=task.id)


async def table(context: PageContext, tasks: Sequence[Task]) -> Safe:
    names = await context.names(task.app_id for task in tasks)

    def application(task: Task) -> Safe:
        return context.anchor(names.get(task.app_id, task.app_id), f"/applications/{task.app_id}")

    return components.table(
        tasks,
        (
            ("Task", lambda task: context.anchor(verb(task), f"/tasks/{task.id}")),
            ("Status", state),
            ("Progress", bar),
            ("Done", numbers),
            ("Endpoint", lambda task: _endpoint(context, task)),
            ("Application", application) if context.app is None else None,
            ("Started", lambda task: components.ago(task.created_at, context.now)),
            (components.actions_heading(), lambda task: stop(context, task)) if context.may_change else None,
        ),
        caption="Tasks, newest first",
        key=lambda task: task.id,
        numeric=("Done",),
    )


def _endpoint(context: PageContext, task: Task) -> Child:
    if task.endpoint_id is None:
        return "all"
    return components.ident(task.endpoint_id, href=context.link(f"/endpoints/{task.endpoint_id}"), most=16)
