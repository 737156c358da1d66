"""Messages for people who search. See `store/found.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookline import ids
from hookline.model import Found, FoundFilter, Message
from hookline.store import found as shared
from hookline.store import rows, walk
from hookline.store.base import Page, Walk
from hookline.store.plans.history import ANY_TIME, made_within
from hookline.store.postgres.base import Part
from hookline.store.postgres.database import READ


class Search(Part):
    async def found_messages(self, org_id: str, where: FoundFilter, page: Page) -> Walk[Found]:
        if not shared.possible(where):
            return Walk(rows=[])
        if where.ref is not None:
            return await self._found_named(org_id, where.ref, where, page)
        return await self._found_walked(org_id, where, page)

    async def _found_named(self, org_id: str, ref: str, where: FoundFilter, page: Page) -> Walk[Found]:
        found = await self._db.fetch("found_by_id", org_id, where.app_no, ref, *made_within(ref))
        if not found and ids.minted_at(ref) is not None:  # the clock that made the id may have been wrong
            found = await self._db.fetch("found_by_id", org_id, where.app_no, ref, *ANY_TIME)
        if not found:
            found = await self._db.fetch("found_by_event_id", org_id, where.app_no, ref, shared.MOST_OF_EVENT)
        return shared.named(await self._found(found), where, page)

    async def _found_walked(self, org_id: str, where: FoundFilter, page: Page) -> Walk[Found]:
        apps = await self._found_apps(org_id, where)
        found: list[Any] = []
        end: str | None = None
        for look in shared.looks(where, apps, page):
            of = apps if look.way == shared.Way.APPS else org_id
            found, end = await self._found_by(look, of, where, page)
            if end is None or len(found) == page.limit:
                break
        return walk.walked(await self._found(found), page, end)

    async def _found_by(
        self, look: shared.Look, of: list[int] | str, where: FoundFilter, page: Page
    ) -> tuple[list[Any], str | None]:
        """What one look finds, and where it ended."""
        span, back = walk.span(ids.MESSAGE, where, page), "_back" if page.backwards else ""
        end: str | None = None
        if look.bounded:
            within = (of,) if look.way == shared.Way.APPS else ()
            end = await self._db.fetchval(f"{look.way}_end{back}", *within, span.near, span.far, look.stride)
        found = await self._db.fetch(
            f"{look.way}{back}",
            *(of, span.near, end or span.far, page.limit),
            *_filter(where),
            *((where.app_no, look.stride) if look.way in (shared.Way.OPEN, shared.Way.DEAD) else ()),
        )
        return found, end

    async def _found_apps(self, org_id: str, where: FoundFilter) -> list[int]:
        """Of the organization: the one that is asked for, or the first ones."""
        if where.app_no is None:
            return [row["no"] for row in await self._db.fetch("found_apps", org_id, shared.FEW + 1)]
        return [where.app_no] if await self._db.fetchval("found_app", org_id, where.app_no) else []

    async def _found(self, found: Sequence[Any]) -> list[Found]:
        messages: list[Message] = [rows.listed_message(row, READ) for row in found]
        if not messages:
            return []
        named = [message.id for message in messages], [message.created_at for message in messages]
        counted = await self._db.fetch("found_states", *named)
        return shared.joined(messages, shared.states(counted))


def _filter(where: FoundFilter) -> tuple[Any, ...]:
    types = None if where.event_types is None else list(where.event_types)
    return where.after, where.before, types, where.channel, where.tag, where.state
