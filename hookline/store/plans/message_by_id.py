"""Find a message by its id. On PostgreSQL the partitions around the time in the id are searched first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hookline import ids
from hookline.store.plans.plan import Plan, row
from hookline.store.rows import Row

_MARGIN = timedelta(days=1)  # maximum difference between the clock that made an id and the database's clock
ANY_TIME = (datetime(2000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC))


def made_within(message_id: str) -> tuple[datetime, datetime]:
    """Return the period in which a message with this id can have been accepted."""
    at = ids.minted_at(message_id)
    return ANY_TIME if at is None else (at - _MARGIN, at + _MARGIN)


def message_row(message_id: str, app_no: int | None = None) -> Plan[Row | None]:
    """Return the message's row. Search around the time in the id first, then everywhere, because the clock that made
    the id may have been wrong."""
    for since, until in (made_within(message_id), ANY_TIME):
        found = yield from row("message_by_id", id=message_id, since=since, until=until, app_no=app_no)
        if found is not None:
            return found
    return None
