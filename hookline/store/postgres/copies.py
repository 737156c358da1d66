"""Rows that were copied from the outbox of another database."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from hookline.clock import wall
from hookline.model.messages import IngestStatus
from hookline.model.outbox import OutboxPlace, OutboxRow, RelayReport
from hookline.rules.operational_events import MANAGEMENT
from hookline.rules.outcomes import clean
from hookline.store.postgres.database import Connection, Database
from hookline.store.postgres.ingest import Ingest, text_array
from hookline.store.postgres.relay import Faults, Found, accept_each, messages, report_of
from hookline.store.rows.documents import policy_text
from hookline.store.rows.reading import maybe

_LONGEST_ID = 256  # Maximum characters of a stored event id. No event that can be sent has a longer one.


class Copies:
    def __init__(self, database: Database, ingest: Ingest, wake: Callable[[], None]) -> None:
        self._db = database
        self._sql = database.sql
        self._options = database.options
        self._ingest = ingest
        self._wake = wake

    async def take(
        self,
        rows: Sequence[OutboxRow],
        *,
        source: str,
        place: OutboxPlace | None = None,
        after: OutboxPlace | None = None,
    ) -> RelayReport | None:
        async def work(connection: Connection) -> RelayReport | None:
            if place is not None and not await self._move(connection, source, place, after):
                return None
            return await self._copy(connection, rows, source)

        report = await self._db.transact(work)
        if report is not None and report.relayed:
            self._wake()
        return report

    async def _copy(self, connection: Connection, rows: Sequence[OutboxRow], source: str) -> RelayReport:
        if not rows:
            return RelayReport()
        found = await self._with_applications(connection, rows)
        taken, faults = messages(found, wall(), self._options.max_payload)
        statuses = await accept_each(self._ingest, connection, taken, faults)
        aside = await self._keep_aside(connection, rows, source, faults)
        relayed = sum(status == IngestStatus.ACCEPTED for status in statuses.values())
        return report_of(relayed, len(rows) - relayed - aside, aside, faults)

    async def _with_applications(self, connection: Connection, rows: Sequence[OutboxRow]) -> list[Found]:
        """Look up the application of each row. Names that the database cannot store, such as those with a NUL, match
        nothing."""
        names = sorted({(maybe(clean, row.org_id), clean(row.app)) for row in rows}, key=str)
        orgs, apps = [org for org, _ in names], [app for _, app in names]
        found = await connection.fetch(self._sql["relay_applications"], MANAGEMENT, orgs, apps)
        known = {(row["org_id"], row["app"]): row["app_no"] for row in found if row["org_id"] != MANAGEMENT}
        return [(row, known.get((row.org_id, row.app))) for row in rows]

    async def _keep_aside(self, connection: Connection, rows: Sequence[OutboxRow], source: str, faults: Faults) -> int:
        """Set copied rows aside. Return how many are new; a row that an earlier copy set aside stays unchanged."""
        aside = [_aside(row, faults[row.id]) for row in rows if row.id in faults]
        if not aside:
            return 0
        columns = [list(column) for column in zip(*aside, strict=True)]
        return len(await connection.fetch(self._sql["relay_keep_aside"], *columns, source))

    async def _move(self, connection: Connection, source: str, place: OutboxPlace, after: OutboxPlace | None) -> bool:
        """Move the copy position of the source from `after` to `place`. Return False if another transaction moved it
        first. This is done before all other writes, so that a concurrent transaction for the same source waits
        here."""
        to = (source, place.row_id, place.row_uid)
        if after is None:
            noted = await connection.fetchval(self._sql["relay_place_first"], *to)
        else:
            noted = await connection.fetchval(self._sql["relay_place_move"], *to, after.row_id, after.row_uid)
        return noted is not None

    async def place(self, source: str) -> OutboxPlace | None:
        row = await self._db.fetchrow("relay_place", source)
        return None if row is None else OutboxPlace(row_id=row["row_id"], row_uid=row["row_uid"])


def _aside(row: OutboxRow, fault: str) -> tuple[object, ...]:
    """Return the columns of a row that was set aside, with only values that PostgreSQL can store."""
    return (
        maybe(clean, row.org_id),
        clean(row.app),
        clean(row.event_type),
        row.payload,
        _storable_id(row.event_id),
        _storable_texts(row.channels),
        _storable_texts(row.tags),
        maybe(clean, row.ordering_key),
        row.deliver_at,
        policy_text(row.policy),
        maybe(clean, row.trace),
        fault,
    )


def _storable_id(event_id: str | None) -> str | None:
    """Return the event id. A long id is shortened for the index, and gets a hash so that it stays unique: a second row
    with the same id would be dropped as a copy."""
    if event_id is None or len(event_id) <= _LONGEST_ID:
        return maybe(clean, event_id)
    digest = hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{clean(event_id[:_LONGEST_ID])}… {digest}"


def _storable_texts(texts: Sequence[str] | None) -> str | None:
    return None if texts is None else text_array([clean(text) for text in texts])
