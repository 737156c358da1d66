"""Turn an outbox row of any database into a message, or into the reason why it was set aside. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from hookline.model.fill import fill
from hookline.model.messages import NewMessage
from hookline.model.outbox import OutboxRow

MAX_REASONS = 3  # maximum number of different reasons in a report

# Placeholders for values of an outbox row that cannot be read. The check of a message refuses them. So if somebody
# retries the row, it is set aside again, and is not sent without its channels or before its time.
NO_TEXT = ""
NO_TEXTS: tuple[str, ...] = ()
NO_INSTANT = datetime(9999, 1, 1, tzinfo=UTC)
NO_AGE = 0.0


def message_of(row: OutboxRow, *, id: str, app_no: int) -> NewMessage:  # noqa: A002
    return fill(NewMessage, row, id=id, app_no=app_no)


def no_application(app: str, org_id: str | None) -> str:
    return f"no such application: {app}" + ("" if org_id is None else f" in the organization {org_id}")


def reasons(faults: Iterable[str]) -> tuple[str, ...]:
    """Return the first `MAX_REASONS` different reasons."""
    return tuple(dict.fromkeys(faults))[:MAX_REASONS]
