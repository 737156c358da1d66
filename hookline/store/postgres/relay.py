"""Relay: turn outbox rows of this database into messages, in the transaction that deletes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from hookline import ids
from hookline.clock import monotonic, wall
from hookline.errors import InvalidInput
from hookline.model.messages import IngestStatus, NewMessage
from hookline.model.outbox import OutboxRow, RelayReport
from hookline.rules.checks.message import check_message
from hookline.rules.operational_events import LONGEST, MANAGEMENT, room
from hookline.rules.outcomes import clean
from hookline.store.plans.outbox_rows import message_of, no_application, reasons
from hookline.store.postgres.database import DATA_ERRORS, Connection, Database
from hookline.store.postgres.ingest import Ingest, ages, contents, lease_to
from hookline.store.postgres.outbox_listener import OutboxWatch
from hookline.store.postgres.outbox_rows import outbox_row
from hookline.store.stages import HandOver, no_hand_over

FEW = 50  # fewer rows than this are read without locks and moved by one statement; more rows are locked while read
_MAX_BYTES = 16 * 1024 * 1024  # maximum bytes of payload to read at once; a larger payload is read alone
# A scan of new rows starts this many row numbers below the highest relayed one, because a transaction may commit after
# another one that has higher row numbers.
_LATE_ROWS = 1000
# Seconds. A full scan is slow if it takes longer than `_CHEAP`, plus `_PER_ROW` for each row that it finds.
_CHEAP, _PER_ROW, _LONGEST_PAUSE = 0.015, 0.005, 2.0
_MAX_SLOW = 5  # slow full scans in a row before full scans pause; a few may be slow only because the machine is busy

Found = tuple[OutboxRow, int | None]  # the row and its application's number
Taken = tuple[int, NewMessage]  # the row's number and its message
Faults = dict[int, str]


class Scan:
    """Decides where the next scan of the outbox starts. A full scan starts at the lowest row number.

    While a long transaction runs anywhere in the database, the index is full of deleted rows, so a full scan is slow.
    After `_MAX_SLOW` slow full scans in a row, full scans pause for five times the duration of the last one, at most
    `_LONGEST_PAUSE` seconds. Otherwise every scan is full.

    During the pause, a relay reads only new rows, and of these only rows without an ordering key: an earlier row of the
    same key may have a row number below the start of the scan.
    """

    def __init__(self) -> None:
        self._highest = 0
        self._slow_scans = 0  # slow full scans in a row
        self._full_scan_at = 0.0  # monotonic time of the next full scan

    def start(self) -> int:
        return 0 if monotonic() >= self._full_scan_at else max(1, self._highest - _LATE_ROWS)

    def took(self, start: int, seconds: float, found: Sequence[int]) -> None:
        """Plan the next scans: `start` is the row number at which a scan began, `found` the row numbers it found."""
        self._highest = max((self._highest, *found))
        if start > 0:
            return
        self._slow_scans = self._slow_scans + 1 if seconds > _CHEAP + _PER_ROW * len(found) else 0
        if self._slow_scans >= _MAX_SLOW:
            self._full_scan_at = monotonic() + min(_LONGEST_PAUSE, 5 * seconds)


class Relay:
    def __init__(self, database: Database, ingest: Ingest, wake: Callable[[], None]) -> None:
        self._db = database
        self._sql = database.sql
        self._options = database.options
        self._ingest = ingest
        self._wake = wake
        self._watch = OutboxWatch(database.connect, poll=database.options.outbox_poll)
        self._scan = Scan()
        self._many = False  # True: the last call of `relay` found more than a few rows

    async def relay(self, limit: int, hand_over: HandOver | None = None) -> RelayReport:
        report = None
        if not self._many:
            report = await self._db.alone(lambda conn: self._relay_few(conn, limit, hand_over), cached_plans=True)
        if report is None:
            report = await self._db.transact(lambda conn: self._relay_many(conn, limit))
        self._many = report.gone >= FEW
        if report.relayed:
            self._wake()
        return report

    async def wait_outbox(self, timeout: float) -> None:
        await self._watch.wait(timeout)

    async def leave_outbox(self) -> None:
        await self._watch.close()

    # ── few rows: two round trips and no BEGIN ──

    async def _relay_few(self, connection: Connection, limit: int, hand_over: HandOver | None) -> RelayReport | None:
        """Relay a few rows. None: nothing was relayed, because there are many rows or the database refuses one of them."""
        start = self._scan.start()
        found = await self._read(connection, "relay_find", start == 0, start, min(limit, FEW))
        if len(found) == FEW:
            return None
        taken, faults = messages(found, wall(), self._options.max_payload)
        try:
            gone, relayed = await self._move_few(connection, taken, hand_over or no_hand_over)
        except DATA_ERRORS:
            return None
        return report_of(relayed, gone - relayed, await self._set_aside(connection, faults), faults)

    async def _move_few(self, connection: Connection, taken: Sequence[Taken], hand_over: HandOver) -> tuple[int, int]:
        """Move rows into messages. Return how many rows still existed, and how many of them became new messages."""
        if not taken:
            return 0, 0
        row_ids = [row_id for row_id, _ in taken]
        new = [message for _, message in taken]
        with hand_over(new) as offer:
            lease = self._ingest.lease_values(offer)
            values = *contents(new), row_ids, self._options.retry.max_age, ages(new), *lease
            moved = await connection.fetchrow(self._sql["relay_move"], *values)
            if offer is not None:
                lease_to(offer, moved, new, lease)
        return moved["gone"], moved["relayed"]

    # ── many rows: locked while they are read ──

    async def _relay_many(self, connection: Connection, limit: int) -> RelayReport:
        start = self._scan.start()
        keyed = start == 0 and await connection.fetchval(self._sql["relay_guard"])
        found = await self._read(connection, "relay_rows", keyed, start, limit)
        taken, faults = messages(found, wall(), self._options.max_payload)
        statuses = await accept_each(self._ingest, connection, taken, faults)
        await connection.execute(self._sql["relay_delete"], list(statuses))
        aside = await self._set_aside(connection, faults)
        relayed = sum(status == IngestStatus.ACCEPTED for status in statuses.values())
        return report_of(relayed, len(statuses) - relayed, aside, faults)

    # ── few or many rows ──

    async def _read(self, connection: Connection, name: str, keyed: bool, start: int, limit: int) -> list[Found]:
        began = monotonic()
        largest = max(self._options.max_payload, LONGEST)
        read = await connection.fetch(self._sql[name], MANAGEMENT, keyed, start, limit, _MAX_BYTES, largest)
        found = [_found(row, self._options.max_payload) for row in read]
        self._scan.took(start, monotonic() - began, [row.id for row, _ in found])
        return found

    async def _set_aside(self, connection: Connection, faults: Faults) -> int:
        if not faults:
            return 0
        return len(await connection.fetch(self._sql["relay_set_aside"], list(faults), list(faults.values())))


async def accept_each(
    ingest: Ingest, connection: Connection, taken: Sequence[Taken], faults: Faults
) -> dict[int, IngestStatus]:
    """Accept messages. If the database refuses the data, bisect down to the bad row. That row is added to `faults` and
    does not block the others."""
    if not taken:
        return {}
    try:
        async with connection.transaction():
            answers = await ingest.accept(connection, [message for _, message in taken])
    except DATA_ERRORS as error:
        if len(taken) == 1:
            faults[taken[0][0]] = clean(str(error))
            return {}
        middle = len(taken) // 2
        first = await accept_each(ingest, connection, taken[:middle], faults)
        return first | await accept_each(ingest, connection, taken[middle:], faults)
    statuses = {row_id: answer.status for (row_id, _), answer in zip(taken, answers, strict=True)}
    gone = [row_id for row_id, status in statuses.items() if status == IngestStatus.NO_APPLICATION]
    for row_id in gone:  # the application was deleted meanwhile
        faults[row_id] = "no such application"
        del statuses[row_id]
    return statuses


def report_of(relayed: int, repeated: int, set_aside: int, faults: Faults) -> RelayReport:
    shown = reasons(faults.values()) if set_aside else ()
    return RelayReport(relayed=relayed, repeated=repeated, set_aside=set_aside, reasons=shown)


def messages(found: Sequence[Found], now: datetime, max_payload: int) -> tuple[list[Taken], Faults]:
    """Build messages and check them. Any program may have written these rows, so invalid values are found here and not
    at each delivery."""
    taken: list[Taken] = []
    faults: Faults = {}
    for row, app_no in found:
        try:
            message = _message(row, app_no, ids.mint(ids.MESSAGE, now))
            taken.append((row.id, check_message(message, now=now, max_payload=room(row.org_id, max_payload))))
        except (InvalidInput, ValueError, OverflowError) as error:
            faults[row.id] = clean(str(error))
    return taken, faults


def _message(row: OutboxRow, app_no: int | None, message_id: str) -> NewMessage:
    if row.fault is not None:
        raise InvalidInput(row.fault)
    if app_no is None:
        raise InvalidInput(no_application(row.app, row.org_id))
    return message_of(row, id=message_id, app_no=app_no)


def _found(row: Any, max_payload: int) -> Found:
    """Return the row and the number of its application. The number is None if there is no such application, or if the
    row may not name it.

    Only rows that Hookline itself wrote may name the management organization. Hookline creates this organization for
    itself, and its applications deliver operational webhooks and alerts.
    """
    copied = row["source"] is not None and row["org_id"] == MANAGEMENT
    found = outbox_row(row)
    if row["payload"] is None:
        found = replace(found, fault=f"payload: {row['size']} bytes, more than {max_payload}")
    return found, None if copied else row["app_no"]
