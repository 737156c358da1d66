"""What gave up, and what brings it back."""

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
    """Dead letters, and the ways back: replay, replay of what was missed, resend."""

    async def dead_letters(self, where: DeadFilter, page: Page) -> list[DeadLetter]:
        """Those that died last come first; one that was replayed and died again is new. Iterators are `death`s."""

    async def dead_letter(self, dead_id: int) -> DeadLetter | None: ...
    async def dead_attempts(self, letter: DeadLetter) -> list[Attempt]:
        """All that were made for it, oldest first; of very many, the last ones."""

    async def dead_stats(self, where: DeadFilter) -> DeadStats: ...
    async def dead_summary(self, where: DeadFilter) -> DeadSummary:
        """By endpoint and reason, of the `COUNTED` that died last: unlike `dead_stats`, its cost does not grow with them."""

    async def dead_applications(self, where: DeadFilter, most: int) -> list[int]:
        """The numbers of the organization's applications that have any, in their order."""

    async def replay(self, where: DeadFilter, limit: int = 1000, *, note: Note[int] | None = None) -> int:
        """Turn up to `limit` matching dead letters back into pending deliveries; how many. Call until it is 0.

        Those that died first come first.

        Attempts 0, time budget anew from now, policy as it was, the delivery's id and history kept. Those of deleted and
        disabled endpoints are left alone: nothing would be sent. Those of paused ones are held until they are resumed.
        Wakes their lanes.
        """

    async def resolve(self, where: DeadFilter, text: str, limit: int = 1000, *, note: Note[int] | None = None) -> int:
        """Close up to `limit` matching dead letters, each with this text as its note; how many."""

    async def replay_missing(
        self,
        endpoint_no: int,
        since: datetime,
        until: datetime,
        limit: int = 1000,
        *,
        note: Note[int] | None = None,
    ) -> int:
        """Deliveries for messages that match the endpoint now and never had one to it. Call until it is 0.

        Messages that are older than the retention are left alone: what was known of their deliveries may be gone.
        `NotFound` if the endpoint was deleted, `Conflict` if it is disabled.
        """

    async def send_example(self, endpoint_no: int, new: NewMessage, *, note: Note[Message] | None = None) -> Message:
        """Accept a message for one endpoint alone, with a manual delivery to it, whatever it subscribes to.

        Nobody else gets it, not even by `replay_missing`. Event id, key, channels and the like are not for examples.
        """

    async def resend(self, endpoint_no: int, message_id: str, *, note: Note[int | None] | None = None) -> int | None:
        """A manual delivery of one message to one endpoint, whatever came before; its id. None: no such message or payload.

        `NotFound` if the endpoint was deleted.
        """


class Tasks(Protocol):
    """Long work over many of them, in steps."""

    task_added: asyncio.Event  # set when this process has added one

    async def add_task(self, new: NewTask, *, note: Note[Task] | None = None) -> Task:
        """Work for any worker, durable. `Conflict` if the application has too many running."""

    async def task_total(self, new: NewTask) -> int | None:
        """How many it would find, if it were added now; None: too many to count."""

    async def task(self, org_id: str, task_id: str) -> Task | None: ...
    async def tasks(self, where: TaskFilter, page: Page, *, newest_first: bool = True) -> list[Task]:
        """By id."""

    async def cancel_task(self, task_id: str, *, note: Note[Task] | None = None) -> Task:
        """As it is afterwards: canceled if it was running, else as it was. What is done stays done."""

    async def open_tasks(self, limit: int) -> list[str]:
        """Running ones, those whose last step is longest ago first: tasks take turns."""

    async def step_task(self, task_id: str, limit: int = STEP) -> Task | None:
        """Do a part of it, as far as `limit` rows go; as it is afterwards. None: not running, or somebody else is at it.

        The work and the progress are one transaction, and the task's row is locked in it: that lock is the lease. Whoever
        dies in a step has done nothing of it, and the next one begins where the last complete step ended.
        """

    async def fail_task(self, task_id: str, error: str) -> None:
        """Give it up, if it is still running."""
