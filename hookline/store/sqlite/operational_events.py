"""Operational webhooks: write events to the outbox in the transaction of the change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookline.model.states import Reason
from hookline.rules import operational_events
from hookline.rules.operational_events import DeliveryEvent, Note
from hookline.store.plans.operational_events import write_events as write_events_plan
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.database import run
from hookline.store.sqlite.transaction import READ, Tx


def write_events(tx: Tx, notes: Sequence[Note]) -> None:
    run(tx, write_events_plan(notes, READ))


def of_deaths(tx: Tx, rows: Sequence[Any], reason: Reason) -> list[DeliveryEvent]:
    """Build events for deliveries that died without an attempt."""
    return [
        DeliveryEvent(
            kind=operational_events.Kind.ATTEMPT_EXHAUSTED,
            endpoint_no=endpoint_no,
            delivery_id=id_,
            message_id=message_id,
            accepted_at=instant(message_at),
            sent=sent,
            at=tx.at,
            reason=reason,
        )
        for id_, endpoint_no, message_id, message_at, sent, *_ in rows
    ]
