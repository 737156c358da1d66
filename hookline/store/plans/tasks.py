"""Tasks: long work in steps. Each step is one transaction under the lock of the task's row."""

from __future__ import annotations

import asyncio
from datetime import datetime

from msgspec import Struct
from msgspec.structs import asdict, replace

from hookline import ids
from hookline.clock import EPOCH
from hookline.errors import Conflict, NotFound
from hookline.model.audit import Note
from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint
from hookline.model.tasks import NewTask, Task, TaskFilter, TaskKind, TaskStatus
from hookline.rules import replay
from hookline.rules.outcomes import clean
from hookline.store import rows
from hookline.store.bounds import COUNTED, COUNTED_DEAD, MAX_RUNNING, STEP
from hookline.store.pages import Page, after_death, death
from hookline.store.plans.dead_letters import filtered
from hookline.store.plans.endpoint_state import endpoint_of
from hookline.store.plans.plan import (
    Database,
    LockTimeout,
    Plan,
    Step,
    by_text,
    changes,
    noted,
    reads,
    row,
    searches,
    searches_and_changes,
    value,
)
from hookline.store.plans.replays import Redelivery, Replays
from hookline.store.rows.documents import json_text

# A step waits at most this long for the lock of a lane or a dead letter. Then it is rolled back, and the next step
# tries again.
LOCK_TIMEOUT = "2s"


class _StepWork(Struct, frozen=True, kw_only=True):
    acts: replay.Chosen | replay.Resent
    end: str | None  # where the next step begins; None: this was the last step
    window: replay.Window | None = None


class Tasks(Replays):
    """Run long work (replay, resolve, replay of missed messages) in steps."""

    def __init__(self, database: Database, redelivery: Redelivery) -> None:
        super().__init__(database, redelivery)
        self.task_added = asyncio.Event()  # set when this process adds a task

    # ── storing tasks ──

    async def add_task(self, new: NewTask, *, note: Note[Task] | None = None) -> Task:
        """Store a task, which any worker may run. Raises `Conflict` if the application has too many running tasks."""
        added = await self._add_task(new, await self.task_total(new), note)
        self.task_added.set()
        return added

    @changes
    def _add_task(self, new: NewTask, total: int | None, note: Note[Task] | None) -> Plan[Task]:
        now = self._reading.instant((yield from value("now")))
        columns = asdict(new) | {"id": ids.mint(ids.TASK, now), "params": json_text(new.work), "total": total}
        task_id = yield from value("task_insert", **columns, max_rows=MAX_RUNNING)
        if task_id is None:
            raise Conflict(f"{MAX_RUNNING} tasks of this application are running: wait for them, or cancel some")
        return (yield from noted(note, (yield from self._stored_task(task_id))))

    @searches
    def task_total(self, new: NewTask) -> Plan[int | None]:
        """Return how many rows the task would match now. None: too many to count."""
        now = self._reading.instant((yield from value("now")))
        first = _new_task(new, now)
        endpoint = yield from endpoint_of(new.endpoint_no, self._reading, self._vault)
        if new.endpoint_no is not None and endpoint is None:
            raise NotFound("no such endpoint")
        where = replay.filter_of(first)
        if where is not None:
            many: int = yield from value("dead_count", **filtered(where), max_rows=COUNTED_DEAD)
            return many if many < COUNTED_DEAD else None
        found = yield from self._find(first, endpoint, now, COUNTED)
        return found.acts.wanted if found.end is None else None

    @reads
    def task(self, org_id: str, task_id: str) -> Plan[Task | None]:
        found = yield from row("task", id=task_id)
        return None if found is None or found["org_id"] != org_id else rows.task(found, self._reading)

    @reads
    def tasks(self, where: TaskFilter, page: Page, *, newest_first: bool = True) -> Plan[list[Task]]:
        """Return a page of tasks ordered by id."""
        asked = replace(page, descending=newest_first)
        whole_org = True if where.app_no is None else None
        found = yield from by_text("tasks", asked, **asdict(where), whole_org=whole_org)
        return [rows.task(each, self._reading) for each in found]

    @changes
    def cancel_task(self, task_id: str, *, note: Note[Task] | None = None) -> Plan[Task]:
        """Cancel the task if it is running, and return it. Completed steps are not undone."""
        yield Step("task_end", id=task_id, status=TaskStatus.CANCELED, error=None)
        return (yield from noted(note, (yield from self._stored_task(task_id))))

    @changes
    def fail_task(self, task_id: str, error: str) -> Plan[None]:
        """Mark the task as failed if it is still running."""
        yield Step("task_end", id=task_id, status=TaskStatus.FAILED, error=clean(error))

    @reads
    def open_tasks(self, limit: int) -> Plan[list[str]]:
        """Return the ids of running tasks. The one whose last step is oldest comes first, so that tasks take turns."""
        return [each["id"] for each in (yield Step("tasks_open", limit=limit))]

    def _stored_task(self, task_id: str) -> Plan[Task]:
        found = yield from row("task", id=task_id)
        if found is None:
            raise NotFound(f"no task {task_id!r}")
        return rows.task(found, self._reading)

    # ── running a step ──

    async def step_task(self, task_id: str, limit: int = STEP) -> Task | None:
        """Run one step over at most `limit` rows and return the task. None: no step was done, because the task is not
        running, another worker runs a step of it, or the step waited too long for a lock.

        The step's work and its progress are one transaction, which locks the task's row. That lock is the lease. If a
        worker dies during a step, the step is rolled back and the next worker continues after the last complete step.
        """
        try:
            return await self._step_task(task_id, limit)
        except LockTimeout:
            return None  # a lock was not free in time; the next step tries again

    @searches_and_changes
    def _step_task(self, task_id: str, limit: int) -> Plan[Task | None]:
        yield Step("task_lock_timeout", longest=LOCK_TIMEOUT)
        found = yield from row("task_take", id=task_id)
        if found is None:
            return None
        yield from self._step(rows.task(found, self._reading), self._reading.instant(found["now"]), limit)
        return (yield from self._stored_task(task_id))

    def _step(self, task: Task, now: datetime, limit: int) -> Plan[None]:
        endpoint = None
        if task.endpoint_no is not None and task.kind != TaskKind.RESOLVE_DEAD:
            try:
                endpoint, _ = yield from self._lock_endpoint(task.endpoint_no)
            except (Conflict, NotFound) as error:
                yield Step("task_end", id=task.id, status=TaskStatus.FAILED, error=str(error))
                return
        found = yield from self._find(task, endpoint, now, limit)
        done = yield from self._act(task, endpoint, found)
        status = TaskStatus.FINISHED if found.end is None else TaskStatus.RUNNING
        counts = {"done": done, "skipped": found.acts.wanted - done}
        yield Step("task_progress", id=task.id, **counts, position=found.end or task.position, status=status)
        yield Step("announce")

    def _find(self, task: Task, endpoint: Endpoint | None, now: datetime, limit: int) -> Plan[_StepWork]:
        if task.kind in replay.ON_MESSAGES:
            assert endpoint is not None
            window = self._window(task, now)
            scan = yield from self._scan_messages(endpoint, window, task.position, limit)
            return _StepWork(acts=replay.sort_out(task, endpoint, window, scan.seen), end=scan.end, window=window)
        letters = yield from self._letters(task, limit)
        end = death(letters[-1].died_at, letters[-1].id) if len(letters) == limit else None
        return _StepWork(acts=replay.choose(task, letters), end=end)

    def _window(self, task: Task, now: datetime) -> replay.Window:
        since, until = task.work.since or EPOCH, task.work.until or task.created_at
        if task.kind == TaskKind.REPLAY_MISSING:
            return replay.missing_window(since, until, now, self._options.retention_days)
        return replay.Window(since=since, until=until)

    def _letters(self, task: Task, limit: int) -> Plan[list[replay.Letter]]:
        died_at, dead_id = after_death(task.position) or (task.work.died_since or EPOCH, -1)
        found = yield Step(
            "dead_in_range",
            app_no=task.app_no,
            endpoint_no=task.endpoint_no,
            whole_app=True if task.endpoint_no is None else None,
            died_at=died_at,
            dead_id=dead_id,
            until=replay.died_before(task),
            limit=limit,
        )
        read = self._reading
        return [read.struct(replay.Letter, each, accepted_at=read.instant(each["message_at"])) for each in found]

    def _act(self, task: Task, endpoint: Endpoint | None, found: _StepWork) -> Plan[int]:
        """Apply the step and return how many rows it changed. The step waits for locked dead letters, and does not skip
        them: if the transaction that holds the lock leaves them unchanged, this step must still change them."""
        acts = found.acts
        if isinstance(acts, replay.Resent):
            assert endpoint is not None
            assert found.window is not None
            delivered = 0
            if acts.deliver:
                delivered = yield from self._redelivery.deliver(endpoint, found.window, acts.deliver)
            return delivered + (yield from self._replay_ids(acts.replay))
        if task.kind != TaskKind.RESOLVE_DEAD:
            return (yield from self._replay_ids(acts.act))
        if not acts.act:
            return 0
        yield Step("dead_lock", ids=acts.act)
        return (yield from self._resolve(DeadFilter(ids=tuple(acts.act)), task.work.note, len(acts.act)))

    def _replay_ids(self, dead_ids: list[int]) -> Plan[int]:
        if not dead_ids:
            return 0
        yield Step("dead_lock", ids=dead_ids)
        return (yield from self._replay(DeadFilter(ids=tuple(dead_ids), resolved=None), len(dead_ids)))


def _new_task(new: NewTask, now: datetime) -> Task:
    """Return the task in its state before the first step."""
    return Task(**asdict(new), id="", app_id="", status=TaskStatus.RUNNING, created_at=now, updated_at=now)
