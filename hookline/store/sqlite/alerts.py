"""Alerts: judged by the writer, and told in the transaction that remembers them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hookline.clock import to_micros
from hookline.model.alerts import (
    Alert,
    Begin,
    Change,
    Decide,
    EarlierChecks,
    Fire,
    Forget,
    Notice,
    Outgoing,
    Remembered,
    Resolve,
    Tell,
    UnhealthyEndpoint,
    Update,
)
from hookline.rules.operational_events import ALERTS, MANAGEMENT
from hookline.store import alerts as shared
from hookline.store.protocols import LAST_NUMBER, Page, after_number
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.transaction import READ, Tx, numbers, texts

_SECOND = 10**6
_DAY = 86_400 * _SECOND


class Alerts(Base):
    async def alert_looks(self, seconds: float) -> EarlierChecks:
        return await self._read(_looks, max(seconds, shared.SHORTEST))

    async def unwell(self, nos: Collection[int], most: int) -> list[UnhealthyEndpoint]:
        return await self._read(_unwell, nos, most)

    async def judge_alerts(self, backlog: int, *, every: float, decide: Decide, tell: Tell) -> list[Notice] | None:
        return await self._write(_judge, backlog, every, decide, tell)

    async def tell_alerts(self, outgoing: Sequence[Outgoing]) -> None:
        await self._write(_write_told, outgoing)

    async def alerts(self, page: Page, *, firing: bool | None = None) -> list[Alert]:
        return await self._read(_alerts, page, firing)


def _looks(tx: Tx, seconds: float) -> EarlierChecks:
    found = tx.rows("alert_looks", {"since": tx.now - round(seconds * _SECOND)})
    return EarlierChecks(now=tx.at, checks=[shared.look(row, READ) for row in found])


def _unwell(tx: Tx, nos: Collection[int], most: int) -> list[UnhealthyEndpoint]:
    return [shared.unwell(row, READ) for row in tx.rows("alert_unwell", {"nos": numbers(nos), "most": most})]


def _judge(tx: Tx, backlog: int, every: float, decide: Decide, tell: Tell) -> list[Notice] | None:
    last = tx.value("alert_last", {"now": tx.now})
    if shared.overtaken(None if last is None else instant(last), tx.at, every):
        return None
    known = Remembered(
        now=tx.at,
        firing=[shared.alert(row, READ) for row in tx.rows("alerts_firing")],
        pending=[shared.pending(row, READ) for row in tx.rows("alerts_pending")],
    )
    notices = [_apply(tx, change) for change in decide(known)]
    told = [notice for notice in notices if notice is not None]
    _write_told(tx, [each for notice in told for each in tell(notice)])
    tx.run("alert_look_add", {"now": tx.now, "backlog": backlog})
    kept = round(shared.LOOKS_KEPT.total_seconds() * _SECOND)
    tx.run("alert_looks_retire", {"now": tx.now, "before": tx.now - kept})
    tx.run("alerts_retire", {"before": tx.now - tx.options.retention_days * _DAY})
    return told


def _apply(tx: Tx, change: Change) -> Notice | None:
    match change:
        case Begin(name=name, subject=subject):
            tx.run("alert_begin", {"name": name, "subject": subject, "now": tx.now})
            return None
        case Forget(name=name, subject=subject):
            tx.run("alert_forget", {"name": name, "subject": subject})
            return None
        case Fire():
            return shared.fired(change, tx.value("alert_fire", _fired(tx, change)), tx.at)
        case Update(alert=alert):
            tx.run("alert_update", _state(alert))
            return shared.changed(change, tx.at)
        case Resolve(alert=alert):
            tx.run("alert_resolve", {"id": alert.id, "clear_since": _state(alert)["clear_since"], "now": tx.now})
            return shared.changed(change, tx.at)


def _fired(tx: Tx, change: Fire) -> dict[str, Any]:
    reading = change.reading
    return {
        "name": reading.name.value,
        "subject": reading.subject,
        "severity": change.severity.value,
        "began_at": to_micros(change.began_at),
        "now": tx.now,
        "value": float(reading.value),
        "threshold": float(reading.threshold),
        "text": reading.text,
    }


def _state(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.id,
        "severity": alert.severity.value,
        "clear_since": None if alert.clear_since is None else to_micros(alert.clear_since),
        "value": float(alert.value),
        "threshold": float(alert.threshold),
        "text": alert.text,
    }


def _write_told(tx: Tx, outgoing: Sequence[Outgoing]) -> None:
    tx.many(
        "alert_tell",
        [
            (MANAGEMENT, ALERTS, each.event_type, each.event_id, texts([each.channel]), each.payload, tx.now)
            for each in outgoing
        ],
    )


def _alerts(tx: Tx, page: Page, firing: bool | None) -> list[Alert]:
    number = after_number(page.iterator)
    start = number if number is not None else 0 if page.backwards else LAST_NUMBER
    given = {"firing": firing, "number": start, "most": page.limit}
    found = tx.rows("alerts_back" if page.backwards else "alerts", given)
    return [shared.alert(row, READ) for row in (reversed(found) if page.backwards else found)]
