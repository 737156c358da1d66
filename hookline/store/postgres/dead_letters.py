"""Replays on PostgreSQL, one statement each."""

from __future__ import annotations

from collections.abc import Sequence

from asyncpg import LockNotAvailableError

from hookline.model import DeadFilter, Endpoint, Task
from hookline.rules.replay import Window
from hookline.store.plans.dead_letters import filtered
from hookline.store.plans.history import ANY_TIME, made_within
from hookline.store.plans.plan import Plan, Step, value
from hookline.store.plans.tasks import Tasks
from hookline.store.postgres.base import Part
from hookline.store.protocols import STEP
from hookline.store.rows import Row


class Moves(Tasks, Part):
    def _replay_rows(self, where: DeadFilter, limit: int) -> Plan[list[Row]]:
        max_age = self._options.retry.max_age
        return (yield Step("replay", **filtered(where), limit=limit, max_age=max_age))

    def _resolve_rows(self, where: DeadFilter, text: str, limit: int) -> Plan[list[Row]]:
        return (yield Step("resolve", **filtered(where), text=text, limit=limit))

    def _deliver(self, endpoint: Endpoint, window: Window, message_ids: Sequence[str]) -> Plan[int]:
        count: int = yield from value(
            "messages_deliver",
            no=endpoint.no,
            ids=list(message_ids),
            since=window.since,
            until=window.until,
            max_age=self._options.retry.max_age,
        )
        return count

    def _resend(self, endpoint_no: int, message_id: str) -> Plan[int | None]:
        for since, until in (made_within(message_id), ANY_TIME):
            delivery_id: int | None = yield from value(
                "resend",
                no=endpoint_no,
                message_id=message_id,
                since=since,
                until=until,
                max_age=self._options.retry.max_age,
            )
            if delivery_id is not None:
                return delivery_id
        return None

    async def step_task(self, task_id: str, limit: int = STEP) -> Task | None:
        """Run one step. If it cannot get the lock of a lane or a dead letter in time, the next step tries again."""
        try:
            return await super().step_task(task_id, limit)
        except LockNotAvailableError:
            return None
