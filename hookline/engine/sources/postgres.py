"""The outbox of an application's own PostgreSQL database. Its rows are copied with their event ids, and then deleted
there.

If a relay dies between the two steps, its rows are copied again. The event id then deduplicates the second copy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import asyncpg
from msgspec.structs import replace

from hookline.clock import monotonic
from hookline.config import shown_url
from hookline.errors import InvalidInput, MigrationNeeded, SourceUnavailable, StoreUnavailable
from hookline.model.outbox import OutboxRow, RelayReport
from hookline.outbox import setup
from hookline.rules.checks.message import LARGEST_PAYLOAD
from hookline.store import Store
from hookline.store.plans.outbox_rows import reasons
from hookline.store.postgres.connection import DroppedConnection, cancelled_first, close
from hookline.store.postgres.database import INDEXED, Connection, translated
from hookline.store.postgres.outbox_listener import OutboxWatch
from hookline.store.postgres.outbox_rows import AGE, outbox_row
from hookline.store.postgres.relay import Scan

MAX_BYTES = 16 * 1024 * 1024  # payload bytes that are copied at once; a larger payload is copied alone
_CONNECT_TIMEOUT, _TIMEOUT = 10.0, 30.0
# The transaction in the application's database is idle while a statement runs in Hookline's own database. Such a
# statement may take half a minute.
_SETTINGS = INDEXED | {"idle_in_transaction_session_timeout": "5min"}
# The copy of a row in Hookline's database is durable, so the deletion of the row in the source need not be. If a crash
# of the source's server undoes the deletion, the row is copied again.
_MOVING = _SETTINGS | {"synchronous_commit": "off"}

_STANDING = """
SELECT to_regclass('hookline.outbox') IS NOT NULL AS there, to_regclass('hookline.migration') IS NOT NULL AS hooklines,
       to_regprocedure('hookline.outbox_version()') IS NOT NULL AS has_version
"""
_VERSION = "SELECT hookline.outbox_version()"

# $1 is the lowest id to read, here and in `_ROWS`.
_HAS_ROWS = "SELECT EXISTS (SELECT FROM hookline.outbox WHERE error IS NULL AND id >= $1::bigint)"

# The query takes the advisory lock at the first row with an ordering key, before it locks that row. Otherwise two
# relays could change the order of the rows. A row without an event id was written by hand. It gets the same id each
# time it is copied.
_ROWS = """
WITH guard AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(1214542, 1) AS held),
locked AS MATERIALIZED (
    SELECT o.id, octet_length(o.payload)::bigint AS size FROM hookline.outbox o
    WHERE o.error IS NULL AND o.id >= $1::bigint AND octet_length(o.payload) <= $4::bigint
      AND (o.ordering_key IS NULL OR $1::bigint = 0 AND (SELECT held FROM guard))
    ORDER BY o.id LIMIT $2::integer FOR UPDATE SKIP LOCKED),
sized AS (SELECT id, sum(size) OVER (ORDER BY id) - size AS before FROM locked)
SELECT {columns} FROM sized s JOIN hookline.outbox o USING (id) WHERE s.before < $3::bigint ORDER BY o.id
"""
_EVENT_ID = """
coalesce(o.event_id, 'evt_' || md5(concat_ws('|', current_database(), o.id, extract(epoch FROM o.created_at)))) AS event_id
"""
_COLUMNS = f"""
o.id, o.org_id, o.app, o.event_type, o.payload, {_EVENT_ID}, o.channels, o.tags, o.ordering_key, o.deliver_at, o.policy, o.trace,
{AGE}
"""
_READ = _ROWS.format(columns=_COLUMNS)
_READ_IDS = _ROWS.format(columns="o.id")
_READ_ONE = f"SELECT {_COLUMNS} FROM hookline.outbox o WHERE o.id = $1"  # noqa: S608  constants
_READ_PAYLOAD = """
SELECT payload, md5(concat_ws('|', org_id, app, coalesce(event_id, id::text))) AS hash FROM hookline.outbox WHERE id = $1
"""
# Sets aside rows whose payloads have more than $1 bytes. A relay might not have enough memory for such a payload, or
# might not read it before the statement timeout.
_SET_ASIDE = """
UPDATE hookline.outbox SET set_aside_at = now(), error = format(
    'payload: %s bytes, more than %s: too large to be copied, it stays in this database', octet_length(payload), $1::bigint)
WHERE error IS NULL AND octet_length(payload) > $1::bigint RETURNING error
"""
_DELETE = "DELETE FROM hookline.outbox WHERE id = ANY ($1::bigint[])"

_UNREADABLE = (ValueError, OverflowError)  # errors for a time that is out of the range of Python's datetime
# A database whose encoding is not UTF-8 may contain bytes that are not valid text.
_UNTRANSLATABLE = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError)


class PostgresSource:
    """The outbox as one relay sees it. Several relays share the work: each takes rows that the others have not
    locked."""

    sampled = False

    def __init__(self, url: str, store: Store, *, poll: float) -> None:
        self.name = shown_url(url)
        self._url = url
        self._store = store
        self._connection: Connection | None = None
        self._checked = False  # whether the database has an outbox that this release can read
        self._scan = Scan()
        self._watch = OutboxWatch(partial(connect, url), poll=poll)

    async def move(self, limit: int) -> RelayReport:
        async with self._connected() as connection:
            transaction = connection.transaction()
            rows = await self._rows(connection, transaction, limit)
            if rows is None:
                return RelayReport()
            report = (
                await self._store.pipeline.take(rows, source=self.name) if rows else await self._set_aside(connection)
            )
            assert report is not None  # `take` returns None only if it gets a `place`
            with reaching(self.name):
                await connection.execute(_DELETE, [row.id for row in rows])
                await transaction.commit()
            return replace(report, more=sum(len(row.payload) for row in rows) >= MAX_BYTES)

    async def wait(self, timeout: float) -> None:
        await self._watch.wait(timeout)

    async def close(self) -> None:
        await self._watch.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            await close(connection)

    async def _rows(self, connection: Connection, transaction: Any, limit: int) -> list[OutboxRow] | None:
        """If rows wait, begin the transaction, lock up to `limit` rows and return them. Otherwise only return None."""
        start, began = self._scan.start(), monotonic()
        rows = None
        with reaching(self.name):
            if await connection.fetchval(_HAS_ROWS, start):
                await transaction.start()
                rows = await _read(connection, start, limit)
        self._scan.took(start, monotonic() - began, [row.id for row in rows or ()])
        return rows

    async def _set_aside(self, connection: Connection) -> RelayReport:
        """Set aside rows whose payloads are too large. `move` calls this if rows wait and it could read none of them.

        The other waiting rows stay in the outbox: another relay has locked them, or they have an ordering key. Only
        one relay at a time reads rows with an ordering key, and only in a full scan, which reads from the lowest id.
        """
        with reaching(self.name):
            aside = await connection.fetch(_SET_ASIDE, LARGEST_PAYLOAD)
        return RelayReport(set_aside=len(aside), reasons=reasons(row["error"] for row in aside))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """Connect, or use the open connection. After any error, including errors of Hookline's own database, close the
        connection, so that the locked rows are unlocked."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._url, _MOVING)
            self._checked = False
        connection = self._connection
        try:
            if not self._checked:
                await check(connection, self.name)
                self._checked = True
            with cancelled_first():
                yield connection
        except BaseException:
            self._connection = None
            connection.terminate()
            raise


# ── connections ───────────────────────────────────────────────────────────────────────────────────────────────────


async def connect(url: str, settings: Mapping[str, str] = _SETTINGS) -> Connection:
    name = shown_url(url)
    try:
        with reaching(name):
            return await asyncpg.connect(
                url,
                server_settings=dict(settings),
                timeout=_CONNECT_TIMEOUT,
                command_timeout=_TIMEOUT,
                connection_class=DroppedConnection,
            )
    except ValueError as error:
        # The driver's error text may contain a part of the password.
        raise SourceUnavailable(f"{name}: the URL cannot be used ({type(error).__name__}): check its form") from None
    except asyncpg.PostgresError as error:
        raise SourceUnavailable(f"{name}: {error}") from error


async def version(connection: Connection, name: str) -> int:
    """Return the version of the outbox, or 0 if there is none. Raises `InvalidInput` for a database of Hookline
    itself."""
    with reaching(name):
        found = await connection.fetchrow(_STANDING)
        if found["hooklines"]:
            raise InvalidInput(f"{name} is a database of Hookline itself, which sets up and relays its own outbox")
        number: int = await connection.fetchval(_VERSION) if found["there"] and found["has_version"] else 0
        return number


async def check(connection: Connection, name: str) -> None:
    """Raise `SourceUnavailable` unless this release can relay from the outbox. The outbox of a newer release is
    compatible."""
    try:
        found = await version(connection, name)
    except InvalidInput as error:
        raise SourceUnavailable(str(error)) from None
    if found < setup.VERSION:
        raise SourceUnavailable(not_set_up(name))


def not_set_up(name: str) -> str:
    return f"{name} has no outbox that this release can read: run `hookline migrate`, or `hookline outbox install` with its URL"


@contextmanager
def reaching(name: str) -> Iterator[None]:
    """Turn the driver's errors into `SourceUnavailable`."""
    try:
        with translated():
            yield
    except MigrationNeeded as error:
        raise SourceUnavailable(_denied(name, error) or not_set_up(name)) from error
    except StoreUnavailable as error:
        raise SourceUnavailable(f"{name}: {error}") from error


def _denied(name: str, error: MigrationNeeded) -> str | None:
    if not isinstance(error.__cause__, asyncpg.InsufficientPrivilegeError):
        return None
    advice = "the role of the URL needs the rights of the outbox's owner (GRANT owner TO role)"
    return f"{name}: {error.__cause__}; {advice}"


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _read(connection: Connection, start: int, limit: int) -> list[OutboxRow]:
    """Read up to `limit` rows whose ids are `start` or higher, and lock them until the transaction ends."""
    try:
        return [outbox_row(found) for found in await connection.fetch(_READ, start, limit, MAX_BYTES, LARGEST_PAYLOAD)]
    except _UNTRANSLATABLE:
        await connection.execute("ROLLBACK; BEGIN")  # the server's error has ended the transaction
    except _UNREADABLE:
        pass
    listed = await connection.fetch(_READ_IDS, start, limit, MAX_BYTES, LARGEST_PAYLOAD)
    return [await _read_one(connection, found["id"]) for found in listed]


async def _read_one(connection: Connection, row_id: int) -> OutboxRow:
    """Read one row. A row that cannot be read gets a fault, so that it does not block the others."""
    try:
        async with connection.transaction():
            return outbox_row(await connection.fetchrow(_READ_ONE, row_id))
    except (*_UNREADABLE, *_UNTRANSLATABLE) as error:
        found = await connection.fetchrow(_READ_PAYLOAD, row_id)
        return OutboxRow(
            id=row_id,
            app="?",
            event_type="?",
            payload=found["payload"],
            event_id=f"evt_{found['hash']}",
            fault=f"the row cannot be read: {error}",
        )
