"""Operational webhooks: an event is written to the outbox in the same transaction as the change that it reports."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from hookline.model.states import Reason
from hookline.rules import operational_events
from hookline.rules.operational_events import MANAGEMENT, DeliveryEvent, Known, LastAttempt, Note, Subject
from hookline.store.plans.plan import Batch, Plan, Step
from hookline.store.rows import Reading, Row


def write_events(notes: Sequence[Note], read: Reading) -> Plan[None]:
    """Write operational events to the outbox, for organizations that receive operational webhooks.

    `notes` are the changes to report: changes of endpoints, deliveries and dead letters. Unlike the `note` of a store
    method, they are not audit entries. If there are no changes, nothing is read. If a delivery changed, its message
    and its last attempt are also read, but only if its organization receives operational webhooks.
    """
    if not notes:
        return
    nos = sorted({note.endpoint_no for note in notes})
    found = yield Step("operational_subjects", management=MANAGEMENT, nos=nos)
    if not found:
        return
    subjects = {row["no"]: read.struct(Subject, row) for row in found}
    known = yield from _known(operational_events.of_deliveries(notes, subjects), read)
    events = operational_events.to_events(notes, subjects, known)
    yield Batch("operational_write", [asdict(event) | {"management": MANAGEMENT} for event in events])


def of_deaths(found: Sequence[Row], reason: Reason, read: Reading) -> list[DeliveryEvent]:
    """Build events for deliveries that died while they waited. They may have had attempts before, but no attempt ended
    them."""
    return [
        DeliveryEvent(
            kind=operational_events.Kind.ATTEMPT_EXHAUSTED,
            endpoint_no=row["endpoint_no"],
            delivery_id=row["id"],
            message_id=row["message_id"],
            accepted_at=read.instant(row["message_at"]),
            sent=row["sent"],
            at=read.instant(row["died_at"]),
            reason=reason,
        )
        for row in found
    ]


def _known(events: Sequence[DeliveryEvent], read: Reading) -> Plan[Known]:
    if not events:
        return Known()
    accepted = {event.message_id: event.accepted_at for event in events}
    instants = list(accepted.values())
    span = {"first": min(instants), "last": max(instants)}
    found = yield Step("operational_messages", ids=list(accepted), instants=instants, **span)
    return Known(
        event_ids={row["id"]: row["event_id"] for row in found},
        traces={row["id"]: row["trace"] for row in found},
        last=(yield from _last(operational_events.without_attempt(events), read)),
    )


def _last(events: Sequence[DeliveryEvent], read: Reading) -> Plan[dict[int, LastAttempt]]:
    """Return the last attempt of each delivery. Attempts that retention removed are missing."""
    if not events:
        return {}
    found = yield Step(
        "operational_attempts",
        deliveries=[event.delivery_id for event in events],
        messages=[event.message_id for event in events],
        since=min(event.accepted_at for event in events),
    )
    return {row["delivery_id"]: _attempt(row, read) for row in found}


def _attempt(row: Row, read: Reading) -> LastAttempt:
    started_at = read.instant(row["started_at"])
    return LastAttempt(id=row["id"], response_status_code=row["status_code"] or 0, timestamp=started_at)
