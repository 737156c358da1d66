"""`tasks list|show|cancel`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from hookline.api.wire.tasks import task as shape
from hookline.cli import params
from hookline.cli.output import Cell, Output
from hookline.cli.session import Session, run, session
from hookline.errors import Conflict
from hookline.model import Task, TaskFilter, TaskStatus
from hookline.services import tasks
from hookline.store.protocols import Page

STEP = 500  # rows that one step looks at
LOOK_AGAIN = 0.05  # seconds until the next look at a task that a worker is at

app = typer.Typer(help="Background tasks: recovery and replay of many, asked for over the API.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="Such as qtask_...")]
Status = Annotated[TaskStatus | None, typer.Option("--status", help="Only these.")]


@app.command("list")
def list_tasks(
    app_ref: params.App = None,
    status: Status = None,
    limit: params.Limit = 50,
    after: params.After = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """List background tasks, newest first.

    hookline tasks list --status running
    """
    out = Output(as_json)
    found = run(_list(org, app_ref, status, Page(limit=limit, iterator=after)))
    out.listing(
        found,
        document=shape,
        columns=("id", "kind", "status", "done", "skipped", "total", "endpoint", "made"),
        cells=_row,
        empty="No tasks.",
    )


def _row(task: Task) -> tuple[Cell, ...]:
    return (
        task.id,
        task.kind.value,
        task.status.value,
        task.done,
        task.skipped,
        task.total,
        task.endpoint_id,
        task.created_at,
    )


async def _list(org: str, app_ref: str | None, status: TaskStatus | None, page: Page) -> list[Task]:
    async with session(org) as opened:
        app_no = None if app_ref is None else (await opened.application(app_ref)).no
        statuses = None if status is None else (status,)
        return await opened.store.tasks(TaskFilter(org_id=opened.org_id, app_no=app_no, statuses=statuses), page)


@app.command("show")
def show(task_id: Id, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False) -> None:
    """Show one background task with its progress."""
    out = Output(as_json)
    found = run(_show(org, task_id))
    out.result(shape(found), people=lambda: _print(out, found))


async def _show(org: str, task_id: str) -> Task:
    async with session(org) as opened:
        return await tasks.find(opened.deps, opened.by, task_id)


def _print(out: Output, task: Task) -> None:
    pairs: list[tuple[str, Cell]] = [
        ("id", task.id),
        ("kind", task.kind.value),
        ("status", task.status.value),
        ("done", task.done),
        ("skipped", task.skipped),
        ("total", task.total),
        ("application", task.app_id),
        ("endpoint", task.endpoint_id),
        ("made", task.created_at),
        ("last step", task.updated_at),
    ]
    if task.error is not None:
        pairs.append(("error", task.error))
    out.fields(pairs)


@app.command("cancel")
def cancel(task_id: Id, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False) -> None:
    """Stop a background task. What it has done stays done."""
    out = Output(as_json)
    canceled = run(_cancel(org, task_id))
    out.result(shape(canceled), people=lambda: out.line(f"{canceled.id} is canceled, {canceled.done:,} done"))


async def _cancel(org: str, task_id: str) -> Task:
    async with session(org) as opened:
        return await tasks.cancel(opened.deps, opened.by, task_id)


# ── doing them here ───────────────────────────────────────────────────────────────────────────────────────────────


async def work_off(opened: Session, made: Sequence[Task], stop: asyncio.Event, advance: Callable[[int], None]) -> int:
    """Do the steps of tasks until all are over, beside any worker, so that a command needs none; how much was done.

    A stop cancels them. `Conflict` if one failed.
    """
    try:
        over = [await _work_off(opened, task, stop, advance) for task in made]
    except asyncio.CancelledError:  # a second signal, of somebody in a hurry
        for task in made:
            await opened.store.cancel_task(task.id)
        raise
    for task in over:
        if task.status == TaskStatus.FAILED:
            raise Conflict(f"{task.id} failed: {task.error}")
    return sum(task.done for task in over)


async def _work_off(opened: Session, task: Task, stop: asyncio.Event, advance: Callable[[int], None]) -> Task:
    while task.status == TaskStatus.RUNNING and not stop.is_set():
        after = await _step(opened, task)
        advance(after.done + after.skipped - task.done - task.skipped)
        task = after
    return await opened.store.cancel_task(task.id) if task.status == TaskStatus.RUNNING else task


async def _step(opened: Session, task: Task) -> Task:
    after = await opened.store.step_task(task.id, STEP)
    if after is None:  # a worker is at it, or has finished it
        await asyncio.sleep(LOOK_AGAIN)
        after = await opened.store.task(task.org_id, task.id)
    return after or task
