"""Operational webhooks: what happened, written to the outbox in the transaction in which it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hookline.model.states import Reason
from hookline.rules import operational_events
from hookline.rules.operational_events import MANAGEMENT, DeliveryEvent, Known, LastAttempt, Note, Subject
from hookline.store.postgres.database import Connection

Statements = Mapping[str, str]


async def tell(connection: Connection, sql: Statements, notes: Sequence[Note]) -> None:
    """One look for those who listen, if anything happened at all; the rest only if there are any."""
    if not notes:
        return
    nos = sorted({note.endpoint_no for note in notes})
    found = await connection.fetch(sql["operational_subjects"], MANAGEMENT, nos)
    if not found:
        return
    subjects = {row["no"]: _subject(row) for row in found}
    known = await _known(connection, sql, operational_events.of_deliveries(notes, subjects))
    events = operational_events.to_events(notes, subjects, known)
    await connection.execute(
        sql["operational_write"],
        MANAGEMENT,
        [event.org_id for event in events],
        [event.kind.value for event in events],
        [event.event_id for event in events],
        [event.payload for event in events],
        [event.trace for event in events],
    )


def of_deaths(rows: Sequence[Any], reason: Reason) -> list[DeliveryEvent]:
    """Of deliveries that died without an attempt."""
    return [
        DeliveryEvent(
            kind=operational_events.Kind.ATTEMPT_EXHAUSTED,
            endpoint_no=row["endpoint_no"],
            delivery_id=row["id"],
            message_id=row["message_id"],
            accepted_at=row["message_at"],
            sent=row["sent"],
            at=row["died_at"],
            reason=reason,
        )
        for row in rows
    ]


async def _known(connection: Connection, sql: Statements, turns: Sequence[DeliveryEvent]) -> Known:
    if not turns:
        return Known()
    accepted = {turn.message_id: turn.accepted_at for turn in turns}
    instants = list(accepted.values())
    found = await connection.fetch(sql["operational_messages"], min(instants), max(instants), instants, list(accepted))
    return Known(
        event_ids={row["id"]: row["event_id"] for row in found},
        traces={row["id"]: row["trace"] for row in found},
        last=await _last(connection, sql, operational_events.without_attempt(turns)),
    )


async def _last(connection: Connection, sql: Statements, turns: Sequence[DeliveryEvent]) -> dict[int, LastAttempt]:
    if not turns:
        return {}
    since: datetime = min(turn.accepted_at for turn in turns)
    found = await connection.fetch(
        sql["operational_attempts"],
        since,
        [turn.delivery_id for turn in turns],
        [turn.message_id for turn in turns],
    )
    return {
        row["delivery_id"]: LastAttempt(
            id=row["id"], response_status_code=row["status_code"] or 0, timestamp=row["started_at"]
        )
        for row in found
    }


def _subject(row: Any) -> Subject:
    return Subject(**{name: row[name] for name in Subject.__struct_fields__})
