"""Alerts: judged under a lock, and told in the transaction that remembers them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from hookline.observe.alerts.alert import (
    Alert,
    Begin,
    Change,
    Decide,
    Fire,
    Forget,
    Looks,
    Notice,
    Outgoing,
    Remembered,
    Resolve,
    Tell,
    Unwell,
    Update,
)
from hookline.operational import ALERTS, MANAGEMENT
from hookline.store import alerts as shared
from hookline.store.base import LAST_NUMBER, Page, after_number
from hookline.store.postgres.base import Part
from hookline.store.postgres.database import READ, Connection
from hookline.store.postgres.sweep import Chore


class Alerts(Part):
    async def alert_looks(self, seconds: float) -> Looks:
        found = await self._db.fetch("alert_looks", max(seconds, shared.SHORTEST))
        return Looks(now=found[0]["now"], looks=[shared.look(row, READ) for row in found if row["at"] is not None])

    async def unwell(self, nos: Collection[int], most: int) -> list[Unwell]:
        return [shared.unwell(row, READ) for row in await self._db.fetch("alert_unwell", list(nos), most)]

    async def judge_alerts(self, backlog: int, *, every: float, decide: Decide, tell: Tell) -> list[Notice] | None:
        async def work(connection: Connection) -> list[Notice] | None:
            if not await connection.fetchval(self._sql["sweep_guard"], int(Chore.ALERTS)):
                return None
            now, last = await connection.fetchrow(self._sql["alert_last"])
            if shared.overtaken(last, now, every):
                return None
            known = await self._remembered(connection, now)
            notices = [await self._apply(connection, change, now) for change in decide(known)]
            told = [notice for notice in notices if notice is not None]
            await self._write_told(connection, [each for notice in told for each in tell(notice)])
            await self._looked(connection, backlog)
            return told

        return await self._db.transact(work, calm=True)

    async def _remembered(self, connection: Connection, now: datetime) -> Remembered:
        firing = await connection.fetch(self._sql["alerts_firing"])
        pending = await connection.fetch(self._sql["alerts_pending"])
        return Remembered(
            now=now,
            firing=[shared.alert(row, READ) for row in firing],
            pending=[shared.pending(row, READ) for row in pending],
        )

    async def _apply(self, connection: Connection, change: Change, now: datetime) -> Notice | None:
        sql = self._sql
        match change:
            case Begin(name=name, subject=subject):
                await connection.execute(sql["alert_begin"], name, subject)
                return None
            case Forget(name=name, subject=subject):
                await connection.execute(sql["alert_forget"], name, subject)
                return None
            case Fire():
                return shared.fired(change, await self._fire(connection, change), now)
            case Update(alert=alert):
                row = (alert.id, alert.severity.value, alert.clear_since, alert.value, alert.threshold, alert.text)
                await connection.execute(sql["alert_update"], *row)
                return shared.changed(change, now)
            case Resolve(alert=alert):
                await connection.execute(sql["alert_resolve"], alert.id, alert.clear_since)
                return shared.changed(change, now)

    async def _fire(self, connection: Connection, change: Fire) -> int:
        reading = change.reading
        alert_id: int = await connection.fetchval(
            self._sql["alert_fire"],
            reading.name.value,
            reading.subject,
            change.severity.value,
            change.began_at,
            reading.value,
            reading.threshold,
            reading.text,
        )
        return alert_id

    async def _looked(self, connection: Connection, backlog: int) -> None:
        await connection.execute(self._sql["alert_look_add"], backlog)
        await connection.execute(self._sql["alert_looks_retire"], shared.LOOKS_KEPT)
        await connection.execute(self._sql["alerts_retire"], self._options.retention_days)

    async def tell_alerts(self, outgoing: Sequence[Outgoing]) -> None:
        async def work(connection: Connection) -> None:
            await self._write_told(connection, outgoing)

        await self._db.transact(work, calm=True)

    async def _write_told(self, connection: Connection, outgoing: Sequence[Outgoing]) -> None:
        if outgoing:
            await connection.execute(
                self._sql["alert_tell"],
                MANAGEMENT,
                ALERTS,
                [each.event_type for each in outgoing],
                [each.event_id for each in outgoing],
                [each.channel for each in outgoing],
                [each.payload for each in outgoing],
            )

    async def alerts(self, page: Page, *, firing: bool | None = None) -> list[Alert]:
        number = after_number(page.iterator)
        if page.backwards:
            found = await self._db.fetch("alerts_back", firing, 0 if number is None else number, page.limit)
            found.reverse()
        else:
            found = await self._db.fetch("alerts", firing, LAST_NUMBER if number is None else number, page.limit)
        return [shared.alert(row, READ) for row in found]
