"""Tasks: long work that is done in steps, each one transaction under the lock of the task's row."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from asyncpg import LockNotAvailableError
from msgspec import Struct

from hookline import ids
from hookline.clock import EPOCH
from hookline.errors import Conflict, NotFound
from hookline.flow.record import clean
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
    sort_out,
)
from hookline.model import DeadFilter, Endpoint, NewTask, Task, TaskFilter, TaskKind, TaskStatus
from hookline.states import Reason
from hookline.store import rows
from hookline.store.base import COUNTED, COUNTED_DEAD, MOST_RUNNING, STEP, Page, after_death, death
from hookline.store.postgres.database import READ, Connection
from hookline.store.postgres.dead import DeadLetters, dead_params
from hookline.store.rows import Row, json_text

# A lane or a letter that somebody holds for longer is waited for in the next step, not in this one.
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"


class _Found(Struct, frozen=True, kw_only=True):
    acts: Chosen | Resent
    end: str | None  # where the next step begins; None: this was the last one
    window: Window | None = None


class Tasks(DeadLetters):
    # ── keeping them ──

    async def add_task(self, new: NewTask) -> Task:
        total = await self.task_total(new)
        made = await self._db.fetchval(
            "task_insert",
            ids.mint(ids.TASK, await self._db.fetchval("now")),
            new.org_id,
            new.app_no,
            new.endpoint_no,
            new.kind.value,
            json_text(new.work),
            total,
            MOST_RUNNING,
        )
        if made is None:
            raise Conflict(f"{MOST_RUNNING} tasks of this application are running: wait for them, or cancel some")
        self.task_added.set()
        return await self._kept_task(made)

    async def task_total(self, new: NewTask) -> int | None:
        now: datetime = await self._db.fetchval("now")
        async with self._db.hot() as connection:
            endpoint = None if new.endpoint_no is None else await self._endpoint_of(connection, new.endpoint_no)
            if new.endpoint_no is not None and endpoint is None:
                raise NotFound("no such endpoint")
            where = filter_of(_first(new, now))
            if where is not None:
                return await self._count_dead(connection, where)
            found = await self._look(connection, _first(new, now), endpoint, now, COUNTED)
        return found.acts.wanted if found.end is None else None

    async def _count_dead(self, connection: Connection, where: DeadFilter) -> int | None:
        many: int = await connection.fetchval(self._sql["dead_count"], *dead_params(where), COUNTED_DEAD)
        return many if many < COUNTED_DEAD else None

    async def task(self, org_id: str, task_id: str) -> Task | None:
        row = await self._db.fetchrow("task", task_id)
        return None if row is None or row["org_id"] != org_id else rows.task(row, READ)

    async def tasks(self, where: TaskFilter, page: Page, *, newest_first: bool = True) -> list[Task]:
        name = "tasks" if newest_first != page.backwards else "tasks_back"
        found = await self._db.fetch(
            name, where.org_id, where.app_no, where.kinds, where.statuses, page.iterator, page.limit
        )
        return [rows.task(row, READ) for row in (found[::-1] if page.backwards else found)]

    async def cancel_task(self, task_id: str) -> Task:
        await self._db.execute("task_end", task_id, TaskStatus.CANCELED.value, None)
        return await self._kept_task(task_id)

    async def fail_task(self, task_id: str, error: str) -> None:
        await self._db.execute("task_end", task_id, TaskStatus.FAILED.value, clean(error))

    async def open_tasks(self, limit: int) -> list[str]:
        return [row["id"] for row in await self._db.fetch("tasks_open", limit)]

    async def _kept_task(self, task_id: str) -> Task:
        row = await self._db.fetchrow("task", task_id)
        if row is None:
            raise NotFound(f"no task {task_id!r}")
        return rows.task(row, READ)

    # ── a step ──

    async def step_task(self, task_id: str, limit: int = STEP) -> Task | None:
        async def work(connection: Connection) -> Task | None:
            await connection.execute(_LOCK_TIMEOUT)
            row = await connection.fetchrow(self._sql["task_take"], task_id)
            if row is None:
                return None
            await self._step(connection, rows.task(row, READ), row["now"], limit)
            return rows.task(await connection.fetchrow(self._sql["task"], task_id), READ)

        try:
            return await self._db.transact(work)
        except LockNotAvailableError:
            return None

    async def _step(self, connection: Connection, task: Task, now: datetime, limit: int) -> None:
        endpoint = None
        if task.endpoint_no is not None and task.kind != TaskKind.RESOLVE_DEAD:
            try:
                endpoint, _ = await self._hold_endpoint(connection, task.endpoint_no)
            except (Conflict, NotFound) as error:
                await connection.execute(self._sql["task_end"], task.id, TaskStatus.FAILED.value, str(error))
                return
        found = await self._look(connection, task, endpoint, now, limit)
        done = await self._act(connection, task, endpoint, found)
        status = TaskStatus.FINISHED if found.end is None else TaskStatus.RUNNING
        skipped, position = found.acts.wanted - done, found.end or task.position
        await connection.execute(self._sql["task_progress"], task.id, done, skipped, position, status.value)

    async def _look(
        self, connection: Connection, task: Task, endpoint: Endpoint | None, now: datetime, limit: int
    ) -> _Found:
        if task.kind in ON_MESSAGES:
            assert endpoint is not None
            window = self._task_window(task, now)
            seen = await self._look_at_messages(connection, endpoint, window, task.position, limit)
            return _Found(acts=sort_out(task, endpoint, window, seen.seen), end=seen.end, window=window)
        letters = [_letter(row) for row in await self._dead_rows(connection, task, limit)]
        end = death(letters[-1].died_at, letters[-1].id) if len(letters) == limit else None
        return _Found(acts=choose(task, letters), end=end)

    def _task_window(self, task: Task, now: datetime) -> Window:
        since, until = task.work.since or EPOCH, task.work.until or task.created_at
        if task.kind == TaskKind.REPLAY_MISSING:
            return missing_window(since, until, now, self._options.retention_days)
        return Window(since=since, until=until)

    async def _dead_rows(self, connection: Connection, task: Task, limit: int) -> list[Any]:
        after = after_death(task.position) or (task.work.died_since or EPOCH, -1)
        found: list[Any] = await connection.fetch(
            self._sql["dead_look"], task.app_no, task.endpoint_no, *after, died_before(task), limit
        )
        return found

    async def _act(self, connection: Connection, task: Task, endpoint: Endpoint | None, found: _Found) -> int:
        """How many were done. Letters are waited for, not passed over: whoever has them may yet let go."""
        acts = found.acts
        if isinstance(acts, Resent):
            assert endpoint is not None
            assert found.window is not None
            delivered = await self._deliver_messages(connection, endpoint, found.window, acts.deliver)
            return delivered + await self._replay_ids(connection, acts.replay)
        if task.kind != TaskKind.RESOLVE_DEAD:
            return await self._replay_ids(connection, acts.act)
        if not acts.act:
            return 0
        await connection.execute(self._sql["dead_lock"], acts.act)
        where = DeadFilter(ids=tuple(acts.act))
        return await self._resolve(connection, where, task.work.note, len(acts.act))

    async def _replay_ids(self, connection: Connection, dead_ids: list[int]) -> int:
        if not dead_ids:
            return 0
        await connection.execute(self._sql["dead_lock"], dead_ids)
        return await self._replay(connection, DeadFilter(ids=tuple(dead_ids), resolved=None), len(dead_ids))


def _first(new: NewTask, now: datetime) -> Task:
    """The task as it will be before its first step."""
    return Task(
        id="",
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


def _letter(row: Row) -> Letter:
    return Letter(
        id=row["id"],
        died_at=row["died_at"],
        accepted_at=row["message_at"],
        event_type=row["event_type"],
        reason=Reason(row["reason"]),
        resolved=row["resolved"],
        sendable=row["sendable"],
    )
