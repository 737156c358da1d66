"""Dead letters, and the ways back: replay, replay of what was missed, resend."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from hookline.errors import NotFound
from hookline.flow.record import clean
from hookline.model import DeadFilter, DeadLetter, DeadStats
from hookline.store import rows
from hookline.store.base import Page, after_id
from hookline.store.postgres.base import ANY_TIME, READ, Part, made_within
from hookline.store.postgres.database import Connection


class DeadLetters(Part):
    async def dead_letters(self, where: DeadFilter, page: Page) -> list[DeadLetter]:
        name = "dead_letters_back" if page.backwards else "dead_letters"
        found = await self._db.fetch(name, *_filter(where), after_id(page), page.limit)
        return [rows.dead_letter(row, READ) for row in (found[::-1] if page.backwards else found)]

    async def dead_letter(self, dead_id: int) -> DeadLetter | None:
        row = await self._db.fetchrow("dead_letter", dead_id)
        return None if row is None else rows.dead_letter(row, READ)

    async def dead_stats(self, where: DeadFilter) -> DeadStats:
        found = await self._db.fetch("dead_stats", *_filter(replace(where, resolved=None)))
        dead = [row for row in found if not row["resolved"]]
        return DeadStats(
            dead=sum(row["many"] for row in dead),
            resolved=sum(row["many"] for row in found if row["resolved"]),
            by_reason={row["reason"]: row["many"] for row in dead},
            oldest=min((row["oldest"] for row in dead), default=None),
        )

    async def replay(self, where: DeadFilter, limit: int = 1000) -> int:
        count: int = await self._db.fetchval("replay", *_filter(where), limit, self._options.retry.max_age)
        return count

    async def resolve(self, where: DeadFilter, note: str, limit: int = 1000) -> int:
        unresolved = _filter(replace(where, resolved=None))
        count: int = await self._db.fetchval("resolve", *unresolved, limit, clean(note))
        return count

    async def replay_missing(self, endpoint_no: int, since: datetime, until: datetime, limit: int = 1000) -> int:
        async def work(connection: Connection) -> int:
            if await connection.fetchrow(self._sql["lane_lock"], endpoint_no) is None:
                raise NotFound("the endpoint does not exist")
            count: int = await connection.fetchval(
                self._sql["replay_missing"], endpoint_no, since, until, limit, self._options.retry.max_age
            )
            return count

        return await self._db.transact(work, calm=True)

    async def resend(self, endpoint_no: int, message_id: str) -> int | None:
        for since, until in (made_within(message_id), ANY_TIME):
            delivery_id: int | None = await self._db.fetchval(
                "resend", endpoint_no, message_id, since, until, self._options.retry.max_age
            )
            if delivery_id is not None:
                return delivery_id
        return None


def _filter(where: DeadFilter) -> tuple[Any, ...]:
    return (
        where.org_id,
        where.app_no,
        where.endpoint_no,
        where.event_type,
        None if where.reason is None else where.reason.value,
        where.since,
        where.until,
        None if where.ids is None else list(where.ids),
        where.resolved,
    )
