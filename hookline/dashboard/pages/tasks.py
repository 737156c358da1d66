"""Tasks: long work that somebody asked for. How far it is, how to stop it, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from hookline.dashboard import parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.pages import dead_filter, task_parts
from hookline.errors import InvalidInput
from hookline.html import Child, Safe, join, tag
from hookline.model import DeadFilter, Task, TaskKind, TaskStatus
from hookline.services import tasks as services
from hookline.store.base import Page as Rows
from hookline.texts import check_name

SHOWN = 50  # on one page
STALE = timedelta(seconds=30)  # a task that nobody has stepped for so long has no worker

_REPLAYS = (TaskKind.RECOVER, TaskKind.REPLAY_DEAD, TaskKind.BULK_REPLAY)


# ── all ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def show(look: Look) -> Page:
    batch = look.param("batch")
    if batch is not None:
        return await _show_batch(look, batch)
    dead_filter.chosen_app(look)
    status = look.param("status")
    if status is not None and status not in set(TaskStatus):
        raise InvalidInput(f"takes one of {', '.join(TaskStatus)}", field="status")
    after = look.param("after")
    if after is not None:
        check_name("after", after)
    where = task_parts.filter_of(look, *(() if status is None else (TaskStatus(status),)))
    found = await look.store.tasks(where, Rows(limit=SHOWN, iterator=after))
    body = look.live(
        "tasks",
        _verdict(found),
        await task_parts.table(look, found) if found else _none(),
        parts.more(look, found[-1].id if len(found) == SHOWN else None),
    )
    return Page(title="Tasks", rail="dead", body=[_statuses(look, status), body])


def _verdict(tasks: Sequence[Task]) -> Safe | None:
    running = sum(task.status == TaskStatus.RUNNING for task in tasks)
    if running:
        return parts.verdict("pending", f"{parts.count(running, 'task')} running.")
    return parts.verdict("delivered", "Nothing is running.") if tasks else None


def _none() -> Safe:
    return parts.empty(
        "No tasks yet. To replay all dead letters that match, to recover an endpoint or to send it what it missed is a task: it "
        "goes on when you leave, and can be stopped.",
        "hookline tasks list",
    )


def _statuses(look: Look, chosen: str | None) -> Safe:
    found = [("All", None), *((status.value.capitalize(), status.value) for status in TaskStatus)]
    return parts.tabs(
        "Status", [(words, look.here(status=value, after=None), value == chosen) for words, value in found]
    )


# ── several together ──────────────────────────────────────────────────────────────────────────────────────────────


async def _show_batch(look: Look, batch: str) -> Page:
    tasks = await services.of_batch(look.deps, look.by, batch)
    running = [task for task in tasks if task.status == TaskStatus.RUNNING]
    done, skipped = sum(task.done for task in tasks), sum(task.skipped for task in tasks)
    counted = [task.total for task in tasks if task.total is not None]
    total = max(sum(counted), done + skipped) if len(counted) == len(tasks) else None
    stop = parts.button(look, look.link("/tasks/stop"), "Stop all", hidden={"batch": batch}) if running else None
    words = f"{parts.count(len(running), 'task')} of {len(tasks):,} running" if running else "All of it is over"
    body = look.live(
        "tasks",
        parts.verdict("pending" if running else "delivered", f"{words}: {done:,} done, {skipped:,} skipped."),
        tag(
            "div",
            parts.progress(done + skipped, total if running else done + skipped, "All together"),
            stop,
            class_="task",
        ),
        await task_parts.table(look, tasks),
    )
    return Page(
        title=f"{task_parts.verb(tasks[0])}: {parts.count(len(tasks), 'application')}", rail="dead", body=[body]
    )


# ── one ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_one(look: Look) -> Page:
    task = await services.find(look.deps, look.by, look.path("task_id"))
    body = look.live("task", _told(look, task), _progress(look, task), _again(look, task), await _after(look, task))
    return Page(
        title=task_parts.verb(task),
        rail="dead",
        body=[body, look.live("work", parts.section("What it does", _work(look, task)))],
        aside=tag("a", "All tasks", href=look.link("/tasks")),
        every=1.0 if task.status == TaskStatus.RUNNING else 3.0,
    )


def _told(look: Look, task: Task) -> Safe:
    """What happened, in a sentence."""
    deed = "resolved" if task.kind == TaskKind.RESOLVE_DEAD else "replayed"
    match task.status:
        case TaskStatus.RUNNING if look.now - task.updated_at > STALE:
            why = "it goes on by itself" if look.viewer.portal else "is a worker running? It goes on when there is one"
            return parts.verdict("held", f"Nothing has happened for a while: {why}.")
        case TaskStatus.RUNNING:
            return parts.verdict("pending", "It is running. You can leave this page.")
        case TaskStatus.FINISHED:
            left = "1 stays as it is" if task.skipped == 1 else f"{task.skipped:,} stay as they are"
            stay = f"; {left}: nothing could be sent" if task.skipped else ""
            return parts.verdict("delivered", f"Finished: {task.done:,} {deed}{stay}.")
        case TaskStatus.CANCELED:
            return parts.verdict("resolved", f"Stopped: {task.done:,} {deed}, the rest is as it was.")
        case TaskStatus.FAILED:
            return parts.verdict("dead", f"Failed: {task.error or 'nobody knows why'}. {task.done:,} {deed}.")


def _progress(look: Look, task: Task) -> Safe:
    pace = task_parts.pace(task, look.now)
    told = tag("p", task_parts.numbers(task), f" · {pace}" if pace else None)
    return join(tag("div", task_parts.bar(task), task_parts.stop(look, task), class_="task"), told)


def _again(look: Look, task: Task) -> Safe | None:
    """What one that came to no good end has left undone."""
    work = task.work
    verb = {TaskKind.REPLAY_DEAD: "replay", TaskKind.RESOLVE_DEAD: "resolve"}.get(task.kind)
    if verb is None or task.status not in (TaskStatus.CANCELED, TaskStatus.FAILED) or not look.may_change:
        return None
    href = look.link(
        f"/dead-letters/{verb}",
        all="1",
        app=None if look.viewer.portal else task.app_id,
        endpoint=task.endpoint_id,
        type=work.event_types[0] if work.event_types else None,
        reason=None if work.reason is None else work.reason.value,
        since=None if work.died_since is None else work.died_since.isoformat(),
        until=None if work.died_until is None else work.died_until.isoformat(),
    )
    return parts.actions(parts.link_button(href, f"{verb.capitalize()} the rest"))


async def _after(look: Look, task: Task) -> Safe | None:
    """A replay may end where it began: what has died since, there."""
    if task.kind not in _REPLAYS:
        return None
    where = DeadFilter(org_id=look.org_id, app_no=task.app_no, endpoint_no=task.endpoint_no, since=task.created_at)
    summary = await look.store.dead_summary(where)
    if not summary.groups:
        return None
    href = look.link(
        "/dead-letters",
        app=None if look.viewer.portal else task.app_id,
        endpoint=task.endpoint_id,
        since=task.created_at.isoformat(),
    )
    many = parts.count(summary.dead, "delivery", summary.more)
    return parts.verdict(
        "dead", tag("a", f"{many} died", href=href), " there since it began. Look at why before you replay again."
    )


def _work(look: Look, task: Task) -> Safe:
    work = task.work
    pairs: list[tuple[str, Child]] = [
        ("Task", parts.ident(task.id)),
        ("Status", task_parts.state(task)),
        ("Application", parts.ident(task.app_id) if look.viewer.portal else _link(look, "applications", task.app_id)),
        ("Endpoint", None if task.endpoint_id is None else _link(look, "endpoints", task.endpoint_id)),
        ("Accepted since", None if work.since is None else parts.clock(work.since)),
        ("Accepted until", None if work.until is None else parts.clock(work.until)),
        ("Died since", None if work.died_since is None else parts.clock(work.died_since)),
        ("Died until", None if work.died_until is None else parts.clock(work.died_until)),
        ("Event types", None if work.event_types is None else ", ".join(work.event_types)),
        ("Reason", None if work.reason is None else work.reason.value),
        ("Channel", work.channel),
        ("Tag", work.tag),
        ("Note", work.note or None),
        ("Began", parts.clock(task.created_at)),
        ("Last step", parts.clock(task.updated_at)),
    ]
    return parts.fields(pairs)


def _link(look: Look, what: str, name: str) -> Safe:
    return parts.ident(name, href=look.link(f"/{what}/{name}"))


# ── stopping ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def stop(look: Look, _form: Form) -> Done:
    task = await services.cancel(look.deps, look.by, look.path("task_id"))
    return Done(to=look.link(f"/tasks/{task.id}"), notice=f"Stopped: {task.done:,} done.")


async def stop_batch(look: Look, form: Form) -> Done:
    batch = form.text("batch")
    stopped = await services.cancel_batch(look.deps, look.by, batch)
    notice = f"Stopped {parts.count(len(stopped), 'task')}: {sum(task.done for task in stopped):,} done."
    return Done(to=look.link("/tasks", batch=batch), notice=notice)


VIEWS = (
    View(path="/tasks", show=show, portal=True),
    View(path="/tasks/{task_id}", show=show_one, portal=True),
)
ACTIONS = (
    Action(path="/tasks/stop", do=stop_batch, portal=True),
    Action(path="/tasks/{task_id}/stop", do=stop, portal=True),
)
