"""Tasks: long work that is done in steps, each one transaction."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline import ids
from hookline.clock import EPOCH
from hookline.errors import Conflict, NotFound
from hookline.flow.replay import (
    ON_MESSAGES,
    Chosen,
    Letter,
    Resent,
    Window,
    choose,
    died_before,
    filter_of,
    missing_window,
    refusal,
    sort_out,
)
from hookline.model import DeadFilter, Endpoint, NewTask, Task, TaskFilter, TaskKind, TaskStatus
from hookline.states import EndpointStatus, Reason
from hookline.store import rows
from hookline.store.base import COUNTED, COUNTED_DEAD, MOST_RUNNING, STEP, Page, after_death, death
from hookline.store.rows import Row, json_text
from hookline.store.sqlite import dead
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.clock import instant, to_micros
from hookline.store.sqlite.lanes import endpoints_for
from hookline.store.sqlite.tx import READ, Tx

_TEXT_ENDS = ("", "\U0010ffff")


class Tasks(Base):
    async def add_task(self, new: NewTask) -> Task:
        total = await self.task_total(new)
        added = await self._write(_add_task, new, total)
        self.task_added.set()
        return added

    async def task_total(self, new: NewTask) -> int | None:
        return await self._read(_total_of, new)

    async def task(self, org_id: str, task_id: str) -> Task | None:
        return await self._read(_task, org_id, task_id)

    async def tasks(self, where: TaskFilter, page: Page, *, newest_first: bool = True) -> list[Task]:
        return await self._read(_tasks, where, page, newest_first)

    async def cancel_task(self, task_id: str) -> Task:
        return await self._write(_cancel_task, task_id)

    async def open_tasks(self, limit: int) -> list[str]:
        return await self._read(_open_tasks, limit)

    async def step_task(self, task_id: str, limit: int = STEP) -> Task | None:
        stepped = await self._write(_step_task, task_id, limit)
        self._bell.set()
        return stepped

    async def fail_task(self, task_id: str, error: str) -> None:
        await self._write(_fail_task, task_id, error)


# ── keeping them ──────────────────────────────────────────────────────────────────────────────────────────────────


def _total_of(tx: Tx, new: NewTask) -> int | None:
    """How many match now; None: too many to count. Read beside the writer."""
    task = _first(new, tx.at)
    endpoint = _endpoint(tx, task)
    if task.endpoint_no is not None and endpoint is None:
        raise NotFound("no such endpoint")
    where = filter_of(task)
    if where is not None:
        many = dead.dead_count(tx, where, COUNTED_DEAD)
        return many if many < COUNTED_DEAD else None
    found = _look(tx, task, endpoint, COUNTED)
    return found.acts.wanted if found.end is None else None


def _first(new: NewTask, now: datetime) -> Task:
    return Task(
        id=ids.mint(ids.TASK, now),
        org_id=new.org_id,
        app_no=new.app_no,
        app_id="",
        kind=new.kind,
        status=TaskStatus.RUNNING,
        work=new.work,
        created_at=now,
        updated_at=now,
        endpoint_no=new.endpoint_no,
    )


def _add_task(tx: Tx, new: NewTask, total: int | None) -> Task:
    made = _first(new, tx.at)
    params = {
        "id": made.id,
        "org_id": new.org_id,
        "app_no": new.app_no,
        "endpoint_no": new.endpoint_no,
        "kind": new.kind.value,
        "params": json_text(new.work),
        "total": total,
        "now": tx.now,
        "most": MOST_RUNNING,
    }
    if not tx.run("task_insert", params):
        raise Conflict(f"{MOST_RUNNING} tasks of this application are running: wait for them, or cancel some")
    return _existing(tx, made.id)


def _task(tx: Tx, org_id: str, task_id: str) -> Task | None:
    row = tx.row("task", (task_id,))
    return None if row is None or row["org_id"] != org_id else rows.task(row, READ)


def _tasks(tx: Tx, where: TaskFilter, page: Page, newest_first: bool) -> list[Task]:
    downwards = newest_first != page.backwards
    name = "tasks_of_org" if where.app_no is None else "tasks_of_app"
    params = {
        "of": where.org_id if where.app_no is None else where.app_no,
        "iterator": page.iterator if page.iterator is not None else _TEXT_ENDS[downwards],
        "kinds": json_text(list(TaskKind if where.kinds is None else where.kinds)),
        "statuses": json_text(list(TaskStatus if where.statuses is None else where.statuses)),
        "limit": page.limit,
    }
    found = [rows.task(row, READ) for row in tx.rows(name if downwards else f"{name}_back", params)]
    return found[::-1] if page.backwards else found


def _cancel_task(tx: Tx, task_id: str) -> Task:
    _end(tx, task_id, TaskStatus.CANCELED, None)
    return _existing(tx, task_id)


def _fail_task(tx: Tx, task_id: str, error: str) -> None:
    _end(tx, task_id, TaskStatus.FAILED, error)


def _open_tasks(tx: Tx, limit: int) -> list[str]:
    return [task_id for (task_id,) in tx.tuples("tasks_open", (limit,))]


def _end(tx: Tx, task_id: str, status: TaskStatus, error: str | None) -> None:
    tx.run("task_end", {"id": task_id, "status": status.value, "error": error, "now": tx.now})


def _existing(tx: Tx, task_id: str) -> Task:
    row = tx.row("task", (task_id,))
    if row is None:
        raise NotFound(f"no task {task_id!r}")
    return rows.task(row, READ)


# ── a step ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Found(Struct, frozen=True, kw_only=True):
    acts: Chosen | Resent
    end: str | None  # where the next step begins; None: this was the last one


def _step_task(tx: Tx, task_id: str, limit: int) -> Task | None:
    row = tx.row("task", (task_id,))
    if row is None or row["status"] != TaskStatus.RUNNING:
        return None
    running = rows.task(row, READ)
    endpoint = _endpoint(tx, running)
    if running.endpoint_no is not None:
        refused = refusal(EndpointStatus.DELETED if endpoint is None else endpoint.status)
        if refused is not None and running.kind != TaskKind.RESOLVE_DEAD:
            _fail_task(tx, task_id, refused)
            return _existing(tx, task_id)
    found = _look(tx, running, endpoint, limit)
    done = _act(tx, running, endpoint, found.acts)
    params = {
        "id": task_id,
        "done": done,
        "skipped": found.acts.wanted - done,
        "position": found.end or running.position,
        "status": TaskStatus.FINISHED.value if found.end is None else TaskStatus.RUNNING.value,
        "now": max(tx.now, to_micros(running.updated_at) + 1),
    }
    tx.run("task_progress", params)
    return _existing(tx, task_id)


def _endpoint(tx: Tx, task: Task) -> Endpoint | None:
    found = [] if task.endpoint_no is None else endpoints_for(tx, [task.endpoint_no])
    return found[0] if found else None


def _look(tx: Tx, task: Task, endpoint: Endpoint | None, limit: int) -> _Found:
    if task.kind in ON_MESSAGES:
        assert endpoint is not None
        window = _window(tx, task)
        seen = dead.look_at_messages(tx, endpoint, window, task.position, limit)
        return _Found(acts=sort_out(task, endpoint, window, seen.seen), end=seen.end)
    letters = [_letter(row) for row in _dead_rows(tx, task, limit)]
    end = death(letters[-1].died_at, letters[-1].id) if len(letters) == limit else None
    return _Found(acts=choose(task, letters), end=end)


def _window(tx: Tx, task: Task) -> Window:
    since, until = task.work.since or EPOCH, task.work.until or task.created_at
    if task.kind == TaskKind.REPLAY_MISSING:
        return missing_window(since, until, tx.at, tx.options.retention_days)
    return Window(since=since, until=until)


def _dead_rows(tx: Tx, task: Task, limit: int) -> list[Row]:
    died_at, dead_id = after_death(task.position) or (task.work.died_since or EPOCH, -1)
    params = {
        "of": task.app_no if task.endpoint_no is None else task.endpoint_no,
        "died_at": to_micros(died_at),
        "id": dead_id,
        "until": to_micros(died_before(task)),
        "limit": limit,
    }
    return list(tx.rows("dead_look_app" if task.endpoint_no is None else "dead_look_endpoint", params))


def _letter(row: Row) -> Letter:
    return Letter(
        id=row["id"],
        died_at=instant(row["died_at"]),
        accepted_at=instant(row["message_at"]),
        event_type=row["event_type"],
        reason=Reason(row["reason"]),
        resolved=bool(row["resolved"]),
        sendable=bool(row["sendable"]),
    )


def _act(tx: Tx, task: Task, endpoint: Endpoint | None, acts: Chosen | Resent) -> int:
    """How many were done."""
    if isinstance(acts, Resent):
        assert endpoint is not None
        delivered = dead.deliver_messages(tx, endpoint, acts.deliver) if acts.deliver else 0
        return delivered + _replay(tx, acts.replay)
    if task.kind == TaskKind.RESOLVE_DEAD:
        where = DeadFilter(ids=tuple(acts.act))
        return dead.resolve(tx, where, task.work.note, len(acts.act)) if acts.act else 0
    return _replay(tx, acts.act)


def _replay(tx: Tx, dead_ids: list[int]) -> int:
    return dead.replay(tx, DeadFilter(ids=tuple(dead_ids), resolved=None), len(dead_ids)) if dead_ids else 0
