"""`tasks list|show|cancel`."""

from __future__ import annotations

from typing import Annotated

import typer

from hookline.api.wire.tasks import task as shape
from hookline.cli import params
from hookline.cli.output import Cell, Output
from hookline.cli.session import Session, run, session
from hookline.errors import Conflict, NotFound
from hookline.model import Task, TaskFilter, TaskStatus
from hookline.store.protocols import Page

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
        return await _find(opened, task_id)


async def _find(opened: Session, task_id: str) -> Task:
    found = await opened.store.task(opened.org_id, task_id)
    if found is None:
        raise NotFound(f"no task {task_id!r}; `hookline tasks list` shows them")
    return found


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
        after = await opened.store.cancel_task((await _find(opened, task_id)).id)
        if after.status != TaskStatus.CANCELED:
            raise Conflict(f"the task is {after.status.value} already")
        await opened.remember("task.cancel", after.id, app_id=after.app_id, detail=f"{after.done:,} done")
        return after
