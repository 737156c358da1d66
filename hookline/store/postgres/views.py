"""What people look at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from hookline import ids
from hookline.model import (
    Attempt,
    Attempted,
    AttemptedFilter,
    AttemptFilter,
    Counts,
    Delivery,
    LaneEvent,
    LaneEventFilter,
    LaneView,
    Message,
    MessageFilter,
    TimelineEntry,
)
from hookline.store import found as shared
from hookline.store import rows, walk
from hookline.store.base import LAST_NUMBER, MOST_LISTED, MOST_WAITING, Page, Walk, after_number
from hookline.store.plans.history import ANY_TIME, made_within
from hookline.store.postgres.base import Part
from hookline.store.postgres.database import READ


class Views(Part):
    async def message(self, app_no: int, ref: str) -> Message | None:
        row = await self._message_row(ref, app_no)
        if row is None:
            row = await self._db.fetchrow("message_by_event_id", app_no, ref)
        return None if row is None else rows.message(row, READ)

    async def messages(self, app_no: int, where: MessageFilter, page: Page, *, content: bool = False) -> Walk[Message]:
        span, times = walk.span(ids.MESSAGE, where, page), (where.after, where.before)
        end = await self._end("messages_end", app_no, span, page, *times) if walk.rare(where) else None
        found = [
            rows.listed_message(row, READ)
            for row in await self._db.fetch(
                _way("messages", page), app_no, span.near, end or span.far, page.limit, *times, *_filter(where)
            )
        ]
        if content:
            if (fits := walk.fits(found)) < len(found):
                found, end = found[:fits], found[fits - 1].id
            found = await self._filled(found)
        return walk.walked(found, page, end)

    async def _filled(self, found: list[Message]) -> list[Message]:
        if not found:
            return []
        instants = [message.created_at for message in found]
        seqs = [message.seq for message in found]
        kept = await self._db.fetch("claim_contents", min(instants), max(instants), instants, seqs)
        payloads = {row["seq"]: row["payload"] for row in kept}
        return [replace(message, payload=payloads.get(message.seq)) for message in found]

    async def messages_of(self, app_no: int, message_ids: Sequence[str]) -> list[Message]:
        """Where their ids say that they are; those that are not there, everywhere: see `_message_row`."""
        if not message_ids:
            return []
        times = [made_within(message_id) for message_id in message_ids]
        since, until = min(first for first, _ in times), max(last for _, last in times)
        found = await self._db.fetch("messages_of", app_no, message_ids, since, until)
        if lost := set(message_ids) - {row["id"] for row in found}:
            found += await self._db.fetch("messages_of", app_no, list(lost), *ANY_TIME)
        return [rows.listed_message(row, READ) for row in found]

    async def expunge_message(self, message: Message, *, force: bool = False) -> bool:
        key = (message.created_at, message.seq, message.id)
        return await self._db.fetchval("message_expunge", *key, force) is not None

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

    async def deliveries_page(self, message: Message, word: str | None, *, after: int, limit: int) -> list[Delivery]:
        of, like = (message.id, message.created_at), shared.state_of(word)
        return [rows.delivery(row, READ) for row in await self._db.fetch("deliveries_page", *of, after, *like, limit)]

    async def delivery_words(self, message: Message) -> dict[str, int]:
        counted = await self._db.fetch("found_states", [message.id], [message.created_at])
        return shared.states(counted).get(message.id, {})

    async def attempts(self, message_id: str) -> list[Attempt]:
        found = await self._db.fetch("attempts", message_id, await self._accepted_at(message_id))
        return [rows.attempt(row, READ) for row in found]

    async def attempt(self, message: Message, attempt_id: str) -> Attempt | None:
        row = await self._db.fetchrow("attempt", message.id, attempt_id, message.created_at)
        return None if row is None else rows.attempt(row, READ)

    async def expunge_attempt(self, message: Message, attempt_id: str) -> bool:
        return await self._db.fetchval("attempt_expunge", message.id, attempt_id, message.created_at) is not None

    async def endpoint_attempts(
        self, endpoint_no: int, where: AttemptFilter, page: Page, *, content: bool = True
    ) -> Walk[Attempt]:
        span, outcome = walk.span(ids.ATTEMPT, where, page), walk.outcome(where)
        recorded = walk.recorded_within(where)
        end = None
        if walk.rare(where):
            end = await self._end("endpoint_attempts_end", endpoint_no, span, page, *recorded, outcome)
        found = await self._db.fetch(
            _way("endpoint_attempts", page),
            *(endpoint_no, span.near, end or span.far, page.limit),
            *(*recorded, where.after, where.before),
            *(outcome, where.code_class, *_filter(where), content),
        )
        return walk.walked([rows.attempt(row, READ) for row in found], page, end)

    async def message_attempts(
        self,
        message: Message,
        where: AttemptFilter,
        page: Page,
        *,
        endpoint_no: int | None = None,
        content: bool = True,
    ) -> list[Attempt]:
        span = walk.span(ids.ATTEMPT, where, page)
        found = await self._db.fetch(
            _way("message_attempts", page),
            *(message.id, span.near, span.far, page.limit),
            *(message.created_at, where.after, where.before),
            *(where.delivered, where.code_class, endpoint_no, content),
        )
        return walk.walked([rows.attempt(row, READ) for row in found], page, None).rows

    async def attempted_messages(
        self, endpoint_no: int, where: AttemptedFilter, page: Page, *, content: bool = False
    ) -> Walk[Attempted]:
        span, recorded = walk.span(ids.ATTEMPT, where, page), walk.recorded_within(where)
        end = await self._end("endpoint_attempts_end", endpoint_no, span, page, *recorded, None)
        states = None if where.states is None else list(where.states)
        listed = await self._db.fetch(
            _way("attempted_messages", page),
            *(endpoint_no, span.near, end or span.far, page.limit),
            *(*recorded, where.after, where.before),
            *(states, *_filter(where)),
        )
        found = [rows.attempted(row, READ) for row in listed]
        if content:
            if (fits := walk.fits([each.message for each in found])) < len(found):
                found, end = found[:fits], found[fits - 1].attempt_id
            filled = await self._filled([each.message for each in found])
            found = [replace(each, message=message) for each, message in zip(found, filled, strict=True)]
        return walk.walked(found, page, end)

    async def lanes(self, org_id: str | None = None, app_no: int | None = None) -> list[LaneView]:
        found = await self._db.fetch("lanes", org_id, MOST_WAITING, app_no, None)
        return [rows.lane_view(row, READ, MOST_WAITING) for row in found]

    async def lane_page(
        self, org_id: str, app_no: int | None, page: Page, *, url: str = "", state: str | None = None
    ) -> list[LaneView]:
        asked = (org_id, MOST_LISTED, app_no, page.iterator or "", url, page.limit, state)
        return [rows.lane_view(row, READ, MOST_LISTED) for row in await self._db.fetch("lane_page", *asked)]

    async def lane_view(self, endpoint_no: int) -> LaneView | None:
        row = await self._db.fetchrow("lanes", None, MOST_WAITING, None, endpoint_no)
        return None if row is None else rows.lane_view(row, READ, MOST_WAITING)

    async def lane_events(self, endpoint_no: int, limit: int = 100) -> list[LaneEvent]:
        return [rows.lane_event(row, READ) for row in await self._db.fetch("lane_events", endpoint_no, limit)]

    async def timeline(self, endpoint_no: int, where: LaneEventFilter, page: Page) -> Walk[TimelineEntry]:
        start = after_number(page.iterator)
        if start is None:
            start = 0 if page.backwards else LAST_NUMBER
        found = await self._db.fetch(_way("timeline", page), endpoint_no, start, walk.seen_at_once(where, page))
        return walk.timeline([rows.timeline_entry(row, READ) for row in found], where, page)

    async def counts(self) -> Counts:
        return Counts(**dict(await self._db.fetchrow("counts")))

    async def _end(self, name: str, of: int, span: walk.Span, page: Page, *bounds: object) -> str | None:
        end: str | None = await self._db.fetchval(_way(name, page), of, span.near, span.far, walk.STRIDE, *bounds)
        return end


def _way(name: str, page: Page) -> str:
    return f"{name}_back" if page.backwards else name


def _filter(where: MessageFilter) -> tuple[Any, ...]:
    return None if where.event_types is None else list(where.event_types), where.channel, where.tag
