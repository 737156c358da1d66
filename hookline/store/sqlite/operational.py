"""Operational webhooks: what happened, written to the outbox in the transaction in which it happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookline.model.states import Reason
from hookline.rules import operational_events
from hookline.rules.operational_events import MANAGEMENT, DeliveryEvent, Known, LastAttempt, Note, Subject
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.transaction import Tx, numbers


def tell(tx: Tx, notes: Sequence[Note]) -> None:
    """One look for those who listen, if anything happened at all; the rest only if there are any."""
    if not notes:
        return
    nos = numbers({note.endpoint_no for note in notes})
    found = tx.rows("operational_subjects", {"management": MANAGEMENT, "nos": nos})
    if not found:
        return
    subjects = {row["no"]: _subject(row) for row in found}
    known = _known(tx, operational_events.of_deliveries(notes, subjects))
    tx.many(
        "operational_write",
        [
            (MANAGEMENT, event.org_id, event.kind.value, event.event_id, event.payload, event.trace, tx.now)
            for event in operational_events.to_events(notes, subjects, known)
        ],
    )


def of_deaths(tx: Tx, rows: Sequence[Any], reason: Reason) -> list[DeliveryEvent]:
    """Of deliveries that died without an attempt."""
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


def _known(tx: Tx, turns: Sequence[DeliveryEvent]) -> Known:
    if not turns:
        return Known()
    messages = msgspec.json.encode(sorted({turn.message_id for turn in turns})).decode()
    found = tx.tuples("operational_messages", (messages,))
    last = {turn.delivery_id: _last(tx, turn) for turn in operational_events.without_attempt(turns)}
    return Known(
        event_ids={message_id: event_id for message_id, event_id, _ in found},
        traces={message_id: trace for message_id, _, trace in found},
        last={id_: attempt for id_, attempt in last.items() if attempt is not None},
    )


def _last(tx: Tx, turn: DeliveryEvent) -> LastAttempt | None:
    """None: retention has taken it."""
    row = tx.row("operational_attempts", (turn.message_id, turn.delivery_id))
    if row is None:
        return None
    return LastAttempt(id=row["id"], response_status_code=row["status_code"] or 0, timestamp=instant(row["started_at"]))


def _subject(row: Any) -> Subject:
    since = row["failing_since"]
    given = {name: row[name] for name in Subject.__struct_fields__}
    return Subject(**given | {"failing_since": None if since is None else instant(since)})
