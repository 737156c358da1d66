"""Tasks: long work that workers do in steps. The audit log has one entry for a task, written when it is created."""

from __future__ import annotations

from datetime import timedelta

from hookline import ids
from hookline.errors import Conflict, NoSuch
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.tasks import NewTask, Task, TaskFilter, TaskKind, TaskStatus
from hookline.services import audit
from hookline.services.deps import Deps
from hookline.services.lookup import storable
from hookline.store import Page

# Prefix of a batch's name. A call that replays or resolves the dead letters of several applications creates one task
# for each of them. These tasks are a batch.
BATCH = "batch_"
_TOGETHER = timedelta(minutes=10)  # maximum time between the first and the last task of a batch
# `of_batch` reads at most this many tasks, newest first, and returns those of the batch. It misses older ones.
_MAX_OF_BATCH = 1000

_ACTIONS = {
    TaskKind.RECOVER: "endpoint.recover",
    TaskKind.REPLAY_MISSING: "endpoint.replay_missing",
    TaskKind.BULK_REPLAY: "endpoint.replay",
    TaskKind.REPLAY_DEAD: "dead_letter.replay",
    TaskKind.RESOLVE_DEAD: "dead_letter.resolve",
}


async def add(deps: Deps, by: Caller, new: NewTask, detail: str) -> Task:
    """Create a task. Raises `Conflict` if the application has too many running tasks."""

    def note(made: Task) -> NewAuditEntry:
        about = made.endpoint_id if _ACTIONS[made.kind].startswith("endpoint.") else None
        words = detail if about is None else f"{detail}: {made.id}"
        return audit.entry(by, _ACTIONS[made.kind], about or made.id, app_id=made.app_id, detail=words)

    return await deps.store.repair.add_task(new, note=note)


async def find(deps: Deps, by: Caller, task_id: str) -> Task:
    found = await deps.store.repair.task(by.org_id, task_id) if storable(task_id) else None
    if found is None or (by.app is not None and found.app_no != by.app.no):
        raise NoSuch("task", task_id)
    return found


async def cancel(deps: Deps, by: Caller, task_id: str) -> Task:
    """Cancel a task. Its finished steps are not undone."""
    after = await _cancel(deps, by, await find(deps, by, task_id))
    if after.status != TaskStatus.CANCELED:
        raise Conflict(f"the task is {after.status} already")
    return after


async def of_batch(deps: Deps, by: Caller, batch: str) -> list[Task]:
    """Return the tasks of a batch, newest first."""
    made_at = ids.minted_at(batch) if batch.startswith(BATCH) else None
    found: list[Task] = []
    if made_at is not None:
        app_no = None if by.app is None else by.app.no
        where = TaskFilter(org_id=by.org_id, app_no=app_no, kinds=(TaskKind.REPLAY_DEAD, TaskKind.RESOLVE_DEAD))
        page = Page(limit=_MAX_OF_BATCH, iterator=ids.first_at(ids.TASK, made_at + _TOGETHER))
        found = [task for task in await deps.store.repair.tasks(where, page) if task.work.batch == batch]
    if not found:
        raise NoSuch("batch of tasks", batch)
    return found


async def cancel_batch(deps: Deps, by: Caller, batch: str) -> list[Task]:
    """Cancel the running tasks of a batch, and return them."""
    running = [task for task in await of_batch(deps, by, batch) if task.status == TaskStatus.RUNNING]
    return [await _cancel(deps, by, task) for task in running]


async def _cancel(deps: Deps, by: Caller, task: Task) -> Task:
    def note(after: Task) -> NewAuditEntry | None:
        if after.status != TaskStatus.CANCELED or task.status == TaskStatus.CANCELED:
            return None
        return audit.entry(by, "task.cancel", after.id, app_id=after.app_id, detail=f"{after.done:,} done")

    return await deps.store.repair.cancel_task(task.id, note=note)
