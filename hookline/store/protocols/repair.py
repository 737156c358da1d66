"""Protocols for dead letters, replays and background tasks."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Protocol

from hookline.model import (
    Attempt,
    DeadFilter,
    DeadLetter,
    DeadStats,
    DeadSummary,
    Message,
    NewMessage,
    NewTask,
    Task,
    TaskFilter,
)
from hookline.model.audit import Note
from hookline.store.protocols.bounds import STEP
from hookline.store.protocols.pages import Page


class DeadLetters(Protocol):
    """List dead letters and send messages again: replay, replay of missed messages, resend."""

    async def dead_letters(self, where: DeadFilter, page: Page) -> list[DeadLetter]:
        """Return a page of dead letters, latest death first. A replayed delivery that dies again is listed as a new
        one. The iterator is a `death`."""

    async def dead_letter(self, dead_id: int) -> DeadLetter | None: ...
    async def dead_attempts(self, letter: DeadLetter) -> list[Attempt]:
        """Return the attempts of a dead letter, oldest first. If there are more than `MAX_ATTEMPTS`, return the latest
        ones."""

    async def dead_stats(self, where: DeadFilter) -> DeadStats: ...
    async def dead_summary(self, where: DeadFilter) -> DeadSummary:
        """Count the latest `COUNTED` dead letters by endpoint and reason. Unlike `dead_stats`, its cost does not grow
        with the total."""

    async def dead_applications(self, where: DeadFilter, limit: int) -> list[int]:
        """Return the numbers of the organization's applications that have dead letters, in ascending order."""

    async def replay(self, where: DeadFilter, limit: int = 1000, *, note: Note[int] | None = None) -> int:
        """Turn up to `limit` matching dead letters back into pending deliveries, and return their number. Call it until
        it returns 0.

        The oldest deaths come first. Each delivery keeps its id, history and retry policy, has 0 attempts and a new
        time budget from now. Dead letters of deleted and disabled endpoints are skipped, because nothing would be sent.
        Those of paused endpoints wait until the endpoint is resumed. The lanes are woken.
        """

    async def resolve(self, where: DeadFilter, text: str, limit: int = 1000, *, note: Note[int] | None = None) -> int:
        """Resolve up to `limit` matching dead letters with this text as their note, and return their number."""

    async def replay_missing(
        self,
        endpoint_no: int,
        since: datetime,
        until: datetime,
        limit: int = 1000,
        *,
        note: Note[int] | None = None,
    ) -> int:
        """Create deliveries for messages that match the endpoint now and never had a delivery to it. Return their
        number. Call it until it returns 0.

        Messages older than the retention are skipped, because their deliveries may have been removed. Raises `NotFound`
        if the endpoint was deleted, `Conflict` if it is disabled.
        """

    async def send_example(self, endpoint_no: int, new: NewMessage, *, note: Note[Message] | None = None) -> Message:
        """Accept a test message for one endpoint, with a manual delivery to it, regardless of its subscriptions.

        No other endpoint gets it, not even through `replay_missing`. A test message has no event id, key or channels.
        """

    async def resend(self, endpoint_no: int, message_id: str, *, note: Note[int | None] | None = None) -> int | None:
        """Create a manual delivery of one message to one endpoint, even if it was delivered before. Return the
        delivery's id. None: the message or its payload does not exist.

        Raises `NotFound` if the endpoint was deleted.
        """


class Tasks(Protocol):
    """Run long work (replay, resolve, replay of missed messages) in steps."""

    task_added: asyncio.Event  # set when this process adds a task

    async def add_task(self, new: NewTask, *, note: Note[Task] | None = None) -> Task:
        """Store a task, which any worker may run. Raises `Conflict` if the application has too many running tasks."""

    async def task_total(self, new: NewTask) -> int | None:
        """Return how many rows the task would match now. None: too many to count."""

    async def task(self, org_id: str, task_id: str) -> Task | None: ...
    async def tasks(self, where: TaskFilter, page: Page, *, newest_first: bool = True) -> list[Task]:
        """Return a page of tasks ordered by id."""

    async def cancel_task(self, task_id: str, *, note: Note[Task] | None = None) -> Task:
        """Cancel the task if it is running, and return it. Completed steps are not undone."""

    async def open_tasks(self, limit: int) -> list[str]:
        """Return the ids of running tasks. The one whose last step is oldest comes first, so that tasks take turns."""

    async def step_task(self, task_id: str, limit: int = STEP) -> Task | None:
        """Run one step over at most `limit` rows and return the task. None: it is not running, or another worker runs
        it.

        The step's work and its progress are one transaction, which locks the task's row. That lock is the lease. If a
        worker dies during a step, the step is rolled back and the next worker continues after the last complete step.
        """

    async def fail_task(self, task_id: str, error: str) -> None:
        """Mark the task as failed if it is still running."""
