"""Runs background tasks in steps. Every worker takes part, and the tasks take turns."""

from __future__ import annotations

import asyncio
import random

import structlog

from hookline.clock import monotonic
from hookline.errors import HooklineError, StoreUnavailable
from hookline.model.tasks import Task, TaskStatus
from hookline.store import STEP, Store
from hookline.store.outage import Outage, first_of

log = structlog.get_logger()

ROUND = 50  # maximum tasks in one round; each task gets one step
TRIES = 5  # failed steps in a row after which the task fails
FIRST_PAUSE = 0.2  # seconds until a failed step is retried; doubles with each failure


class TaskRunner:
    def __init__(
        self, store: Store, outage: Outage, chance: random.Random, *, poll: float = 1.0, step: int = STEP
    ) -> None:
        self._store = store
        self._outage = outage
        self._chance = chance
        self._poll = poll
        self._step = step
        self._failing: dict[str, tuple[int, float]] = {}  # by task: failures in a row, and the time of the next try

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._store.repair.task_added.clear()  # before `once` reads the tasks, so that no new task is missed
            try:
                stepped = await self.once(stop)
            except StoreUnavailable as error:
                await self._outage.failed("tasks", error, stop)
                continue
            except Exception:
                log.exception("tasks_failed")
                stepped = 0
            if not stepped:
                # Wait until this process adds a task, or until it is time to look for tasks of other processes.
                await first_of(stop.wait(), self._store.repair.task_added.wait(), timeout=self._poll)

    async def once(self, stop: asyncio.Event | None = None) -> int:
        """Run one step of each open task that no other worker has locked. Return the number of steps."""
        open_tasks = await self._store.repair.open_tasks(ROUND)
        self._outage.passed()
        self._failing = {task_id: since for task_id, since in self._failing.items() if task_id in open_tasks}
        self._chance.shuffle(open_tasks)  # so that workers with the same list begin with different tasks
        stepped = 0
        for task_id in open_tasks:
            if stop is not None and stop.is_set():
                break
            stepped += await self._try(task_id)
        return stepped

    async def _try(self, task_id: str) -> bool:
        failures, again_at = self._failing.get(task_id, (0, 0.0))
        if monotonic() < again_at:
            return False
        try:
            task = await self._store.repair.step_task(task_id, self._step)
        except StoreUnavailable:
            raise
        except Exception as error:
            await self._failed(task_id, failures + 1, error)
            return False
        self._failing.pop(task_id, None)
        if task is not None:
            _log_end(task)
        return task is not None

    async def _failed(self, task_id: str, failures: int, error: Exception) -> None:
        """Retry a failed step later, because the cause may be a conflict with another process. After `TRIES` failures
        the task itself fails."""
        log.error("task_step_failed", task=task_id, failures=failures, exc_info=error)
        if failures < TRIES:
            self._failing[task_id] = (failures, monotonic() + FIRST_PAUSE * 2.0 ** (failures - 1))
            return
        self._failing.pop(task_id, None)
        shown = str(error) if isinstance(error, HooklineError) else f"{type(error).__name__}; see the worker's log"
        await self._store.repair.fail_task(task_id, shown)


def _log_end(task: Task) -> None:
    progress = {"done": task.done, "skipped": task.skipped, "total": task.total}
    match task.status:
        case TaskStatus.FINISHED:
            log.info("task_finished", task=task.id, kind=task.kind.value, **progress)
        case TaskStatus.FAILED:
            log.warning("task_failed", task=task.id, kind=task.kind.value, error=task.error, **progress)
