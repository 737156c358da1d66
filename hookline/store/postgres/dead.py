"""Dead letters, and the ways back: replay, replay of what was missed, resend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hookline.errors import Conflict, NotFound
from hookline.flow.record import clean
from hookline.flow.replay import CLOCKS_APART, Seen, Window, missed, missing_window, refusal, target
from hookline.model import Attempt, DeadFilter, DeadLetter, DeadOfApplication, DeadStats, DeadSummary, Endpoint
from hookline.operational import Batch, Kind
from hookline.states import EndpointStatus
from hookline.store import rows
from hookline.store.base import COUNTED, MOST_ATTEMPTS, STEP, TOP_APPLICATIONS, Page, after_death
from hookline.store.postgres.base import ANY_TIME, Part, made_within
from hookline.store.postgres.database import READ, Connection
from hookline.store.postgres.operational import tell
from hookline.store.rows import Row


class Look(Struct, frozen=True, kw_only=True):
    """The messages that a walk has come by, and where it goes on; None: there are no more."""

    seen: list[Seen]
    end: str | None


class DeadLetters(Part):
    async def dead_letters(self, where: DeadFilter, page: Page) -> list[DeadLetter]:
        name = "dead_letters_back" if page.backwards else "dead_letters"
        after = after_death(page.iterator) or (None, None)
        found = await self._db.fetch(name, *dead_params(where), *after, page.limit)
        return [rows.dead_letter(row, READ) for row in (found[::-1] if page.backwards else found)]

    async def dead_letter(self, dead_id: int) -> DeadLetter | None:
        row = await self._db.fetchrow("dead_letter", dead_id)
        return None if row is None else rows.dead_letter(row, READ)

    async def dead_attempts(self, letter: DeadLetter) -> list[Attempt]:
        found = await self._db.fetch("dead_attempts", letter.message_id, letter.id, letter.accepted_at, MOST_ATTEMPTS)
        return [rows.attempt(row, READ) for row in found[::-1]]

    async def dead_stats(self, where: DeadFilter) -> DeadStats:
        both = dead_params(replace(where, resolved=None))
        found = await self._db.fetch("dead_stats", *both)
        dead = [row for row in found if not row["resolved"]]
        by_application = await self._db.fetch("dead_stats_applications", *both, TOP_APPLICATIONS)
        return DeadStats(
            dead=sum(row["many"] for row in dead),
            pending=await self._db.fetchval("dead_stats_pending", *both[:4]),
            resolved=sum(row["many"] for row in found if row["resolved"]),
            by_reason={row["reason"]: row["many"] for row in dead},
            by_application=tuple(DeadOfApplication(**dict(row)) for row in by_application),
            oldest=min((row["oldest"] for row in dead), default=None),
        )

    async def dead_summary(self, where: DeadFilter) -> DeadSummary:
        found = await self._db.fetch("dead_summary", *dead_params(where), COUNTED)
        return rows.dead_summary(found, COUNTED, READ)

    async def dead_applications(self, where: DeadFilter, most: int) -> list[int]:
        return [row["no"] for row in await self._db.fetch("dead_applications", *dead_params(where), most)]

    async def replay(self, where: DeadFilter, limit: int = 1000) -> int:
        async def work(connection: Connection) -> int:
            return await self._replay(connection, where, limit)

        return await self._db.transact(work, calm=True)

    async def _replay(self, connection: Connection, where: DeadFilter, limit: int) -> int:
        found = await connection.fetch(self._sql["replay"], *dead_params(where), limit, self._options.retry.max_age)
        return await self._told(connection, found, Kind.DEAD_REPLAYED)

    async def resolve(self, where: DeadFilter, note: str, limit: int = 1000) -> int:
        if where.resolved:
            return 0

        async def work(connection: Connection) -> int:
            return await self._resolve(connection, where, note, limit)

        return await self._db.transact(work, calm=True)

    async def _resolve(self, connection: Connection, where: DeadFilter, note: str, limit: int) -> int:
        unresolved = dead_params(replace(where, resolved=None))
        found = await connection.fetch(self._sql["resolve"], *unresolved, limit, clean(note))
        return await self._told(connection, found, Kind.DEAD_RESOLVED, clean(note))

    async def _told(self, connection: Connection, found: Sequence[Any], kind: Kind, note: str | None = None) -> int:
        """How many there were, of all endpoints."""
        batches = [
            Batch(kind=kind, endpoint_no=no, count=count, first=first, at=at, note=note)
            for no, count, first, at, _ in found
        ]
        await tell(connection, self._sql, batches)
        return sum(batch.count for batch in batches)

    # ── what an endpoint missed, or is to get once more ──

    async def replay_missing(self, endpoint_no: int, since: datetime, until: datetime, limit: int = 1000) -> int:
        after: str | None = None
        while True:
            made, after = await self._replay_stretch(endpoint_no, since, until, after, limit)
            if made or after is None:
                return made

    async def _replay_stretch(
        self, endpoint_no: int, since: datetime, until: datetime, after: str | None, limit: int
    ) -> tuple[int, str | None]:
        async def work(connection: Connection) -> tuple[int, str | None]:
            endpoint, now = await self._hold_endpoint(connection, endpoint_no)
            window = missing_window(since, until, now, self._options.retention_days)
            look = await self._look_at_messages(connection, endpoint, window, after, STEP)
            to = target(endpoint)
            chosen = [seen.id for seen in look.seen if missed(to, window, seen)][:limit]
            return await self._deliver_messages(connection, endpoint, window, chosen), look.end

        return await self._db.transact(work)

    async def _hold_endpoint(self, connection: Connection, endpoint_no: int) -> tuple[Endpoint, datetime]:
        """Under its lane's lock, and the instant; `NotFound` or `Conflict` where nothing would be sent."""
        lane = await connection.fetchrow(self._sql["lane_lock"], endpoint_no)
        if lane is None:
            raise NotFound("no such endpoint")
        refused = refusal(EndpointStatus(lane["status"]))
        if refused is not None:
            raise Conflict(refused)
        endpoint = await self._endpoint_of(connection, endpoint_no)
        if endpoint is None:
            raise NotFound("no such endpoint")
        return endpoint, lane["now"]

    async def _endpoint_of(self, connection: Connection, endpoint_no: int) -> Endpoint | None:
        found = await connection.fetch(self._sql["endpoints_for"], [endpoint_no])
        return rows.endpoint_or_fault(found[0], READ, self._vault) if found else None

    async def _look_at_messages(
        self, connection: Connection, endpoint: Endpoint, window: Window, after: str | None, limit: int
    ) -> Look:
        found = await connection.fetch(
            self._sql["messages_look"],
            endpoint.no,
            endpoint.app_no,
            after or window.first_id(),
            window.last_id(),
            window.since - CLOCKS_APART,
            window.until + CLOCKS_APART,
            limit,
        )
        return Look(seen=[_seen(row) for row in found], end=found[-1]["id"] if len(found) == limit else None)

    async def _deliver_messages(
        self, connection: Connection, endpoint: Endpoint, window: Window, message_ids: Sequence[str]
    ) -> int:
        if not message_ids:
            return 0
        count: int = await connection.fetchval(
            self._sql["messages_deliver"],
            endpoint.no,
            message_ids,
            window.since,
            window.until,
            self._options.retry.max_age,
        )
        return count

    async def resend(self, endpoint_no: int, message_id: str) -> int | None:
        for since, until in (made_within(message_id), ANY_TIME):
            delivery_id: int | None = await self._db.fetchval(
                "resend", endpoint_no, message_id, since, until, self._options.retry.max_age
            )
            if delivery_id is not None:
                return delivery_id
        if await self._db.fetchval("endpoint_lives", endpoint_no) is None:
            raise NotFound("no such endpoint")
        return None


def _seen(row: Row) -> Seen:
    return Seen(
        id=row["id"],
        created_at=row["created_at"],
        event_type=row["event_type"],
        channels=None if row["channels"] is None else tuple(row["channels"]),
        tags=None if row["tags"] is None else tuple(row["tags"]),
        whole=row["whole"],
        open=row["open"],
        delivered=row["delivered"],
        dead_id=row["dead_id"],
    )


def dead_params(where: DeadFilter) -> tuple[Any, ...]:
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
