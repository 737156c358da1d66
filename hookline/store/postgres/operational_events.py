"""Operational webhooks: write events to the outbox in the transaction of the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hookline.model.states import Reason
from hookline.rules import operational_events
from hookline.rules.operational_events import DeliveryEvent, Note
from hookline.store.plans.operational_events import write_events as write_events_plan
from hookline.store.postgres.database import READ, Connection, run


async def write_events(connection: Connection, sql: Mapping[str, str], notes: Sequence[Note]) -> None:
    await run(connection, sql, write_events_plan(notes, READ))


def of_deaths(rows: Sequence[Any], reason: Reason) -> list[DeliveryEvent]:
    """Build events for deliveries that died without an attempt."""
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
