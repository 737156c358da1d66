"""`tasks list|show|cancel`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated

from typer import Argument, Option

from hookline.api.wire.tasks import task as document
from hookline.cli import params
from hookline.cli.command import OrgCommand
from hookline.cli.group import CommandGroup
from hookline.cli.output import Cell
from hookline.cli.session import Session
from hookline.errors import Conflict
from hookline.model.tasks import Task, TaskFilter, TaskStatus
from hookline.services import tasks

BATCH = 500  # rows that one step of a task processes
POLL_INTERVAL = 0.05  # seconds between two reads of a task that a worker is processing

app = CommandGroup(help="Background tasks: bulk recovery and replay, started over the API.")

Id = Annotated[str, Argument(metavar="ID", help="Such as qtask_...")]


@app.command("list")
async def list_tasks(
    cmd: OrgCommand,
    paging: params.Paging,
    app_ref: params.App = None,
    status: Annotated[TaskStatus | None, Option(help="Only tasks with this status.")] = None,
) -> None:
    """List background tasks, newest first.

    hookline tasks list --status running
    """
    statuses = None if status is None else (status,)
    async with cmd.session() as opened:
        app_no = None if app_ref is None else (await opened.application(app_ref)).no
        where = TaskFilter(org_id=cmd.org, app_no=app_no, statuses=statuses)
        found = await opened.store.repair.tasks(where, paging.page)
    cmd.out.listing(
        found,
        document=document,
        columns=("id", "kind", "status", "done", "skipped", "total", "endpoint", "made"),
        cells=lambda each: (*_progress(each).values(), each.endpoint_id, each.created_at),
        empty="No tasks.",
    )


def _progress(task: Task) -> dict[str, Cell]:
    return {
        "id": task.id,
        "kind": task.kind.value,
        "status": task.status.value,
        "done": task.done,
        "skipped": task.skipped,
        "total": task.total,
    }


@app.command("show")
async def show(cmd: OrgCommand, task_id: Id) -> None:
    """Show one background task with its progress."""
    task = await cmd.call(tasks.find, task_id)
    pairs: list[tuple[str, Cell]] = [
        *_progress(task).items(),
        ("application", task.app_id),
        ("endpoint", task.endpoint_id),
        ("made", task.created_at),
        ("last step", task.updated_at),
    ]
    if task.error is not None:
        pairs.append(("error", task.error))
    cmd.out.result(document(task), as_text=lambda: cmd.out.fields(pairs))


@app.command("cancel")
async def cancel(cmd: OrgCommand, task_id: Id) -> None:
    """Stop a background task. The rows that it has processed stay as they are."""
    canceled = await cmd.call(tasks.cancel, task_id)
    cmd.out.answer(document(canceled), f"{canceled.id} is canceled, {canceled.done:,} done")


# ── run tasks in this process ─────────────────────────────────────────────────────────────────────────────────────


async def run_to_end(
    opened: Session, started: Sequence[Task], stop: asyncio.Event, advance: Callable[[int], None]
) -> int:
    """Run tasks in this process until they end, so that the command needs no worker. Return how many rows the tasks
    processed.

    A worker may process the same tasks at the same time. `stop` cancels the tasks. Raise `Conflict` if one failed.
    """
    try:
        ended = [await _run_to_end(opened, task, stop, advance) for task in started]
    except asyncio.CancelledError:  # a second signal, such as Ctrl-C twice
        for task in started:
            await opened.store.repair.cancel_task(task.id)
        raise
    for task in ended:
        if task.status == TaskStatus.FAILED:
            raise Conflict(f"{task.id} failed: {task.error}")
    return sum(task.done for task in ended)


async def _run_to_end(opened: Session, task: Task, stop: asyncio.Event, advance: Callable[[int], None]) -> Task:
    while task.status == TaskStatus.RUNNING and not stop.is_set():
        after = await _step(opened, task)
        advance(after.done + after.skipped - task.done - task.skipped)
        task = after
    return await opened.store.repair.cancel_task(task.id) if task.status == TaskStatus.RUNNING else task


async def _step(opened: Session, task: Task) -> Task:
    after = await opened.store.repair.step_task(task.id, BATCH)
    if after is None:  # a worker is processing the task, or has finished it
        await asyncio.sleep(POLL_INTERVAL)  # poll: workers do not notify this process
        after = await opened.store.repair.task(task.org_id, task.id)
    return after or task
