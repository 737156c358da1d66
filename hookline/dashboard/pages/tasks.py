"""The task pages: the list of tasks, one batch, and one task with its progress, its result and a stop button.

A batch is the tasks that one request started for several applications.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from hookline.dashboard import components
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages import task_parts
from hookline.model.dead import DeadFilter
from hookline.model.tasks import Task, TaskKind, TaskStatus
from hookline.rules.checks.text import check_name
from hookline.services import tasks as services
from hookline.store import Page as Rows
from hookline.web.html import Child, Safe, join, tag

SHOWN = 50  # tasks on one page
STALE = timedelta(seconds=30)  # a task without progress for this time probably has no worker

_REPLAYS = (TaskKind.RECOVER, TaskKind.REPLAY_DEAD, TaskKind.BULK_REPLAY)


# ── list ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/tasks", portal=True)
async def show(context: PageContext) -> Page:
    batch = context.param("batch")
    if batch is not None:
        return await _show_batch(context, batch)
    context.check_app()
    status, after = context.choice("status", TaskStatus), context.param("after")
    if after is not None:
        check_name("after", after)
    where = task_parts.filter_of(context, *(() if status is None else (status,)))
    found = await context.store.repair.tasks(where, Rows(limit=SHOWN, iterator=after))
    body = context.live(
        "tasks",
        _verdict(found),
        await task_parts.table(context, found) if found else _empty(),
        components.more(context, found[-1].id if len(found) == SHOWN else None),
    )
    options = {"": "All"} | {each.value: each.value.capitalize() for each in TaskStatus}
    tabs = components.filter_tabs(context, "Status", "status", options, status)
    return Page(title="Tasks", rail="dead", body=[tabs, body])


def _verdict(tasks: Sequence[Task]) -> Safe | None:
    running = sum(task.status == TaskStatus.RUNNING for task in tasks)
    if running:
        return components.verdict("pending", f"{components.count(running, 'task')} running.")
    return components.verdict("delivered", "No task is running.") if tasks else None


def _empty() -> Safe:
    return components.empty(
        "No tasks yet. A task replays or resolves many dead letters, recovers an endpoint, or sends it missed messages. It "
        "runs in the background, and you can stop it.",
        "hookline tasks list",
    )


# ── one batch ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def _show_batch(context: PageContext, batch: str) -> Page:
    tasks = await services.of_batch(context.deps, context.caller, batch)
    running = [task for task in tasks if task.status == TaskStatus.RUNNING]
    done, skipped = sum(task.done for task in tasks), sum(task.skipped for task in tasks)
    counted = [task.total for task in tasks if task.total is not None]
    total = max(sum(counted), done + skipped) if len(counted) == len(tasks) else None
    stop = components.button(context, context.link("/tasks/stop"), "Stop all", hidden={"batch": batch})
    words = f"{components.count(len(running), 'task')} of {len(tasks):,} running" if running else "All tasks have ended"
    verdict = components.verdict("pending" if running else "delivered", f"{words}: {done:,} done, {skipped:,} skipped.")
    bar = components.progress(done + skipped, total if running else done + skipped, "Progress of all tasks")
    progress = tag("div", bar, stop if running else None, class_="task")
    body = context.live("tasks", verdict, progress, await task_parts.table(context, tasks))
    title = f"{task_parts.verb(tasks[0])}: {components.count(len(tasks), 'application')}"
    return Page(title=title, rail="dead", body=[body])


# ── one task ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/tasks/{task_id}", portal=True)
async def show_one(context: PageContext) -> Page:
    task = await services.find(context.deps, context.caller, context.path("task_id"))
    body = context.live(
        "task",
        _status_sentence(context, task),
        _progress(context, task),
        _continue_button(context, task),
        await _failed_again(context, task),
    )
    return Page(
        title=task_parts.verb(task),
        rail="dead",
        body=[body, context.live("work", components.section("Details", _details(context, task)))],
        aside=context.anchor("All tasks", "/tasks"),
        refresh=1.0 if task.status == TaskStatus.RUNNING else 3.0,
    )


def _status_sentence(context: PageContext, task: Task) -> Safe:
    """Return the status of the task as a sentence."""
    verb_done = "resolved" if task.kind == TaskKind.RESOLVE_DEAD else "replayed"
    match task.status:
        case TaskStatus.RUNNING if context.now - task.updated_at > STALE:
            check = "Check that a worker is running; the task then continues."
            words = "It continues by itself." if context.viewer.portal else check
            return components.verdict("held", f"No progress for {STALE.seconds} seconds. {words}")
        case TaskStatus.RUNNING:
            return components.verdict("pending", "Running. You can leave this page.")
        case TaskStatus.FINISHED:
            skipped = f"; {task.skipped:,} skipped, because nothing could be sent" if task.skipped else ""
            return components.verdict("delivered", f"Finished: {task.done:,} {verb_done}{skipped}.")
        case TaskStatus.CANCELED:
            return components.verdict("resolved", f"Stopped: {task.done:,} {verb_done}, the others are unchanged.")
        case TaskStatus.FAILED:
            return components.verdict("dead", f"Failed: {task.error or 'unknown error'}. {task.done:,} {verb_done}.")


def _progress(context: PageContext, task: Task) -> Safe:
    pace = task_parts.pace(task, context.now)
    numbers = tag("p", task_parts.numbers(task), f" · {pace}" if pace else None)
    return join(tag("div", task_parts.bar(task), task_parts.stop(context, task), class_="task"), numbers)


def _continue_button(context: PageContext, task: Task) -> Safe | None:
    """Offer to continue the work that a failed or stopped task left unfinished."""
    work = task.work
    verb = {TaskKind.REPLAY_DEAD: "replay", TaskKind.RESOLVE_DEAD: "resolve"}.get(task.kind)
    if verb is None or task.status not in (TaskStatus.CANCELED, TaskStatus.FAILED) or not context.may_change:
        return None
    href = context.link(
        f"/dead-letters/{verb}",
        all="1",
        app=None if context.viewer.portal else task.app_id,
        endpoint=task.endpoint_id,
        type=work.event_types[0] if work.event_types else None,
        reason=None if work.reason is None else work.reason.value,
        since=None if work.died_since is None else work.died_since.isoformat(),
        until=None if work.died_until is None else work.died_until.isoformat(),
    )
    return components.actions(components.link_button(href, f"{verb.capitalize()} the rest"))


async def _failed_again(context: PageContext, task: Task) -> Safe | None:
    """Warn about deliveries to the same endpoints that became dead letters after the replay started."""
    if task.kind not in _REPLAYS:
        return None
    where = DeadFilter(org_id=context.org_id, app_no=task.app_no, endpoint_no=task.endpoint_no, since=task.created_at)
    summary = await context.store.repair.dead_summary(where)
    if not summary.groups:
        return None
    href = context.link(
        "/dead-letters",
        app=None if context.viewer.portal else task.app_id,
        endpoint=task.endpoint_id,
        since=task.created_at.isoformat(),
    )
    failed = components.count(summary.dead, "delivery", summary.more)
    link = tag("a", f"{failed} failed again", href=href)
    words = " since the task started. Check the reason before you replay again."
    return components.verdict("dead", link, words)


def _details(context: PageContext, task: Task) -> Safe:
    work = task.work
    app = components.ident(task.app_id) if context.viewer.portal else _link(context, "applications", task.app_id)
    rows: list[tuple[str, Child]] = [
        ("Task", components.ident(task.id)),
        ("Status", task_parts.state(task)),
        ("Application", app),
        ("Endpoint", None if task.endpoint_id is None else _link(context, "endpoints", task.endpoint_id)),
        ("Accepted since", None if work.since is None else components.clock(work.since)),
        ("Accepted until", None if work.until is None else components.clock(work.until)),
        ("Died since", None if work.died_since is None else components.clock(work.died_since)),
        ("Died until", None if work.died_until is None else components.clock(work.died_until)),
        ("Event types", None if work.event_types is None else ", ".join(work.event_types)),
        ("Reason", None if work.reason is None else work.reason.value),
        ("Channel", work.channel),
        ("Tag", work.tag),
        ("Note", work.note or None),
        ("Started", components.clock(task.created_at)),
        ("Last step", components.clock(task.updated_at)),
    ]
    return components.fields(rows)


def _link(context: PageContext, what: str, name: str) -> Safe:
    return components.ident(name, href=context.link(f"/{what}/{name}"))


# ── stopping ──────────────────────────────────────────────────────────────────────────────────────────────────────


@post("/tasks/{task_id}/stop", portal=True)
async def stop(context: PageContext, _form: Form) -> Done:
    task = await services.cancel(context.deps, context.caller, context.path("task_id"))
    return Done(to=context.link(f"/tasks/{task.id}"), notice=f"Stopped: {task.done:,} done.")


@post("/tasks/stop", portal=True)
async def stop_batch(context: PageContext, form: Form) -> Done:
    batch = form.text("batch")
    stopped = await services.cancel_batch(context.deps, context.caller, batch)
    notice = f"Stopped {components.count(len(stopped), 'task')}: {sum(task.done for task in stopped):,} done."
    return Done(to=context.link("/tasks", batch=batch), notice=notice)
