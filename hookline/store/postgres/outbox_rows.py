"""Read the rows of a PostgreSQL outbox, Hookline's own or an application's, whatever they contain. Pure functions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.model.outbox import OutboxRow
from hookline.model.policy import PolicyOverride
from hookline.store.plans.outbox_rows import NO_AGE, NO_INSTANT, NO_TEXTS
from hookline.store.rows.documents import read_policy

Faults = list[str]

# The age of the outbox row `o`, by the clock of its database. Any program may have written the row, with any time. A
# time from the future counts as now. A time before 2000 counts as 2000, because PostgreSQL cannot subtract `-infinity`.
AGE = """
extract(epoch FROM now() - least(now(), greatest(o.created_at, timestamptz '2000-01-01 00:00+00')))::float8 AS age
"""


def outbox_row(found: Any) -> OutboxRow:
    faults: Faults = []
    row = OutboxRow(
        id=found["id"],
        app=found["app"],
        event_type=found["event_type"],
        payload=found["payload"] or b"",
        event_id=found["event_id"],
        org_id=found["org_id"],
        channels=_texts("channels", found["channels"], faults),
        tags=_texts("tags", found["tags"], faults),
        ordering_key=found["ordering_key"],
        deliver_at=_instant(found["deliver_at"], faults),
        policy=_policy(found["policy"], faults),
        trace=found["trace"],
        age=found["age"],
    )
    return replace(row, fault=faults[0]) if faults else row


def _texts(field: str, listed: list[Any] | None, faults: Faults) -> tuple[str, ...] | None:
    """Read a list column. A PostgreSQL array may also have several dimensions or contain NULLs, which are faults."""
    if listed is None:
        return None
    if not all(isinstance(text, str) for text in listed):
        faults.append(f"{field}: is not a plain list of texts")
        return NO_TEXTS
    return tuple(listed)


def _instant(at: datetime | None, faults: Faults) -> datetime | None:
    if at is None or at.tzinfo is not None:
        return at
    faults.append("deliver_at: is not an instant")  # The driver returns infinity as a value without a time zone.
    return NO_INSTANT


def _policy(text: str | None, faults: Faults) -> PolicyOverride | None:
    try:
        return read_policy(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        faults.append(f"the policy cannot be used: {error}")
        return PolicyOverride(max_age=NO_AGE)
