"""Alerts as rows: what both engines share."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from hookline.model.alerts import (
    Alert,
    EarlierCheck,
    Fire,
    Notice,
    Pending,
    Resolve,
    Severity,
    UnhealthyEndpoint,
    Update,
)
from hookline.model.states import Circuit, EndpointStatus
from hookline.store.rows import Reading, Row

LOOKS_KEPT = timedelta(hours=2)
SHORTEST = 60.0  # seconds of looks that are always told: the last one says when the next is due
SOON = 0.5  # of the time between two looks: whoever comes sooner than this was overtaken by another


def overtaken(last: datetime | None, now: datetime, every: float) -> bool:
    return last is not None and timedelta(0) <= now - last < timedelta(seconds=every * SOON)


def alert(row: Row, reading: Reading) -> Alert:
    def instant(name: str) -> datetime | None:
        return None if row[name] is None else reading.instant(row[name])

    return Alert(
        id=row["id"],
        name=row["name"],
        subject=row["subject"],
        org_id=row["org_id"],
        severity=Severity(row["severity"]),
        began_at=reading.instant(row["began_at"]),
        fired_at=reading.instant(row["fired_at"]),
        clear_since=instant("clear_since"),
        resolved_at=instant("resolved_at"),
        value=row["value"],
        threshold=row["threshold"],
        text=row["text"],
    )


def pending(row: Row, reading: Reading) -> Pending:
    return Pending(name=row["name"], subject=row["subject"], began_at=reading.instant(row["began_at"]))


def look(row: Row, reading: Reading) -> EarlierCheck:
    return EarlierCheck(reading.instant(row["at"]), row["backlog"])


def unwell(row: Row, reading: Reading) -> UnhealthyEndpoint:
    return UnhealthyEndpoint(
        endpoint_no=row["endpoint_no"],
        endpoint_id=row["endpoint_id"],
        org_id=row["org_id"],
        app_id=row["app_id"],
        app_uid=row["app_uid"],
        status=EndpointStatus(row["status"]),
        circuit=Circuit(row["circuit"]),
        opened_at=None if row["opened_at"] is None else reading.instant(row["opened_at"]),
    )


def fired(change: Fire, alert_id: int, now: datetime) -> Notice:
    reading = change.reading
    made = Alert(
        id=alert_id,
        name=reading.name.value,
        subject=reading.subject,
        org_id=reading.org_id,
        severity=change.severity,
        began_at=change.began_at,
        fired_at=now,
        value=reading.value,
        threshold=reading.threshold,
        text=reading.text,
    )
    return Notice(alert=made, at=now)


def changed(change: Update | Resolve, now: datetime) -> Notice | None:
    """None: nothing that anybody must be told."""
    match change:
        case Resolve():
            return Notice(alert=replace(change.alert, resolved_at=now), at=now)
        case Update():
            return Notice(alert=change.alert, at=now) if change.worse else None
