"""What people look at."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hookline.model import Attempt, Counts, Delivery, LaneEvent, LaneView, Message
from hookline.store import rows
from hookline.store.base import Page
from hookline.store.postgres.base import ANY_TIME, READ, Part, made_within

_DEPTH = 10_000  # open deliveries of a lane are counted up to here


class Views(Part):
    async def message(self, app_no: int, ref: str) -> Message | None:
        row = await self._message_row(ref, app_no)
        if row is None:
            row = await self._db.fetchrow("message_by_event_id", app_no, ref)
        return None if row is None else rows.message(row, READ)

    async def messages(self, app_no: int, page: Page) -> list[Message]:
        return [rows.message(row, READ) for row in await self._newest_first("messages", app_no, page)]

    async def message_by_id(self, message_id: str) -> Message | None:
        row = await self._message_row(message_id, None)
        return None if row is None else rows.message(row, READ)

    async def _message_row(self, message_id: str, app_no: int | None) -> Any:
        """Where its id says that it is; else everywhere: the clock that made the id may have been wrong."""
        row = await self._db.fetchrow("message_by_id", message_id, *made_within(message_id), app_no)
        return row or await self._db.fetchrow("message_by_id", message_id, *ANY_TIME, app_no)

    async def _accepted_at(self, message_id: str) -> datetime:
        """Its history cannot be older. The beginning of time if the message is gone."""
        row = await self._message_row(message_id, None)
        at: datetime = ANY_TIME[0] if row is None else row["created_at"]
        return at

    async def deliveries(self, message_id: str) -> list[Delivery]:
        found = await self._db.fetch("deliveries", message_id, await self._accepted_at(message_id))
        return [rows.delivery(row, READ) for row in found]

    async def attempts(self, message_id: str) -> list[Attempt]:
        found = await self._db.fetch("attempts", message_id, await self._accepted_at(message_id))
        return [rows.attempt(row, READ) for row in found]

    async def endpoint_attempts(self, endpoint_no: int, page: Page) -> list[Attempt]:
        found = await self._newest_first("endpoint_attempts", endpoint_no, page)
        return [rows.attempt(row, READ) for row in found]

    async def lanes(self, org_id: str | None = None, app_no: int | None = None) -> list[LaneView]:
        found = await self._db.fetch("lanes", org_id, app_no, None, _DEPTH)
        return [rows.lane_view(row, READ) for row in found]

    async def lane_view(self, endpoint_no: int) -> LaneView | None:
        row = await self._db.fetchrow("lanes", None, None, endpoint_no, _DEPTH)
        return None if row is None else rows.lane_view(row, READ)

    async def lane_events(self, endpoint_no: int, limit: int = 100) -> list[LaneEvent]:
        return [rows.lane_event(row, READ) for row in await self._db.fetch("lane_events", endpoint_no, limit)]

    async def counts(self) -> Counts:
        return Counts(**dict(await self._db.fetchrow("counts")))

    async def _newest_first(self, name: str, owner: int, page: Page) -> list[Any]:
        if not page.backwards:
            return await self._db.fetch(name, owner, page.iterator or "", page.limit)
        found = await self._db.fetch(f"{name}_back", owner, page.iterator or "", page.limit)
        return found[::-1]
