"""The outbox without its relay: rows copied from other databases, rows that were set aside, and the wait for new rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hookline.clock import wall
from hookline.model import IngestStatus, OutboxPlace, OutboxRow, OutboxView, RelayReport, SetAside
from hookline.rules.operational_events import MANAGEMENT
from hookline.rules.outcomes import clean
from hookline.security.vault import Vault
from hookline.store import rows as reading
from hookline.store.postgres.database import READ, Connection, Database
from hookline.store.postgres.ingest import text_array
from hookline.store.postgres.outbox_listener import OutboxWatch
from hookline.store.postgres.relay import Faults, Found, Relay, messages, report_of
from hookline.store.protocols import COUNTED, Page, StoreOptions, after_number

_LAST = 2**63 - 1  # the largest row number
_LONGEST_ID = 256  # Maximum characters of a stored event id. No event that can be sent has a longer one.


class Outbox(Relay):
    def __init__(self, database: Database, vault: Vault, options: StoreOptions) -> None:
        super().__init__(database, vault, options)
        self._watch = OutboxWatch(database.connect, poll=options.outbox_poll)

    async def wait_outbox(self, timeout: float) -> None:
        await self._watch.wait(timeout)

    async def leave_outbox(self) -> None:
        await self._watch.close()

    # ── rows of other databases ──

    async def take(
        self,
        rows: Sequence[OutboxRow],
        *,
        source: str,
        place: OutboxPlace | None = None,
        after: OutboxPlace | None = None,
    ) -> RelayReport | None:
        async def work(connection: Connection) -> RelayReport | None:
            if place is not None and not await self._noted(connection, source, place, after):
                return None
            return await self._copy(connection, rows, source)

        report = await self._db.transact(work)
        if report is not None and report.relayed:
            self.wake()
        return report

    async def _copy(self, connection: Connection, rows: Sequence[OutboxRow], source: str) -> RelayReport:
        if not rows:
            return RelayReport()
        found = await self._with_applications(connection, rows)
        taken, faults = messages(found, wall(), self._options.max_payload)
        statuses = await self.accept_each(connection, taken, faults)
        aside = await self._keep_aside(connection, rows, source, faults)
        relayed = sum(status == IngestStatus.ACCEPTED for status in statuses.values())
        return report_of(relayed, len(rows) - relayed - aside, aside, faults)

    async def _with_applications(self, connection: Connection, rows: Sequence[OutboxRow]) -> list[Found]:
        """Look up the application of each row. Names that the database cannot store, such as those with a NUL, match
        nothing."""
        names = sorted({(_held(row.org_id), clean(row.app)) for row in rows}, key=str)
        found = await connection.fetch(
            self._sql["relay_applications"], MANAGEMENT, [org for org, _ in names], [app for _, app in names]
        )
        known = {(row["org_id"], row["app"]): row["app_no"] for row in found if row["org_id"] != MANAGEMENT}
        return [(row, known.get((row.org_id, row.app))) for row in rows]

    async def _keep_aside(self, connection: Connection, rows: Sequence[OutboxRow], source: str, faults: Faults) -> int:
        """Set copied rows aside. Return how many are new; a row that an earlier copy set aside stays unchanged."""
        aside = [_aside(row, faults[row.id]) for row in rows if row.id in faults]
        if not aside:
            return 0
        columns = [list(column) for column in zip(*aside, strict=True)]
        return len(await connection.fetch(self._sql["relay_keep_aside"], *columns, source))

    async def _noted(self, connection: Connection, source: str, place: OutboxPlace, after: OutboxPlace | None) -> bool:
        """Move the copy position first: a concurrent transaction for the same source waits here and then finds that it
        is too late."""
        to = (source, place.row_id, place.row_uid)
        if after is None:
            noted = await connection.fetchval(self._sql["relay_place_first"], *to)
        else:
            noted = await connection.fetchval(self._sql["relay_place_move"], *to, after.row_id, after.row_uid)
        return noted is not None

    async def place(self, source: str) -> OutboxPlace | None:
        row = await self._db.fetchrow("relay_place", source)
        return None if row is None else OutboxPlace(row_id=row["row_id"], row_uid=row["row_uid"])

    # ── set aside ──

    async def outbox(self) -> OutboxView:
        row = await self._db.fetchrow("outbox", COUNTED)
        return OutboxView(waiting=row["waiting"], oldest=row["oldest"], set_aside=row["set_aside"])

    async def set_aside(self, page: Page) -> list[SetAside]:
        number = after_number(page.iterator)
        if page.backwards:
            found = await self._db.fetch("set_aside_back", _LAST if number is None else number, page.limit)
            found.reverse()
        else:
            found = await self._db.fetch("set_aside", number or 0, page.limit)
        return [reading.set_aside(row, READ) for row in found]


def _aside(row: OutboxRow, fault: str) -> tuple[object, ...]:
    """Return the columns of a row that was set aside, with only values that PostgreSQL can store."""
    return (
        _held(row.org_id),
        clean(row.app),
        clean(row.event_type),
        row.payload,
        _held_id(row.event_id),
        _held_all(row.channels),
        _held_all(row.tags),
        _held(row.ordering_key),
        row.deliver_at,
        reading.policy_text(row.policy),
        _held(row.trace),
        fault,
    )


def _held(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _held_id(event_id: str | None) -> str | None:
    """Return the event id, shortened for the index and still unique, because a row with an equal id is dropped as a
    copy."""
    if event_id is None or len(event_id) <= _LONGEST_ID:
        return _held(event_id)
    digest = hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{clean(event_id[:_LONGEST_ID])}… {digest}"


def _held_all(texts: Sequence[str] | None) -> str | None:
    return None if texts is None else text_array([clean(text) for text in texts])
