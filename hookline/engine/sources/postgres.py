"""The outbox of an application's own PostgreSQL database: its rows are copied under their event ids, then deleted there.

Whoever dies between the two leaves rows that are copied once more, and the event id makes the second copy harmless.
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
from hookline.model import OutboxRow, RelayReport
from hookline.outbox import setup
from hookline.rules.checks.message import LARGEST_PAYLOAD
from hookline.store.outbox_rows import reasons
from hookline.store.postgres.database import HOT, Connection, translated
from hookline.store.postgres.outbox_listener import OutboxWatch
from hookline.store.postgres.outbox_rows import outbox_row
from hookline.store.postgres.relay import Scan
from hookline.store.protocols import Store

MAX_BYTES = 16 * 1024 * 1024  # of the payloads that are copied at once; a single larger one is copied alone
_CONNECT_TIMEOUT, _TIMEOUT, _CLOSE_TIMEOUT = 10.0, 30.0, 5.0
# Hookline's own database has half a minute for each statement of the copy; meanwhile we are idle in our transaction here.
_SETTINGS = HOT | {"idle_in_transaction_session_timeout": "5min"}
# The copy is durable; a deletion that the server's crash undoes is a row that is copied once more.
_MOVING = _SETTINGS | {"synchronous_commit": "off"}

_STANDING = """
SELECT to_regclass('hookline.outbox') IS NOT NULL AS there, to_regclass('hookline.migration') IS NOT NULL AS hooklines,
       to_regprocedure('hookline.outbox_version()') IS NOT NULL AS has_version
"""
_VERSION = "SELECT hookline.outbox_version()"

# $1 the lowest id, here and below.
_LOOK = "SELECT EXISTS (SELECT FROM hookline.outbox WHERE error IS NULL AND id >= $1::bigint)"

# The guard is asked for when the first row with a key is met, before that row is locked: two relays would put them out of order.
# A row without an event id was written by hand; it has the same one however often it is copied.
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
o.id, o.org_id, o.app, o.event_type, o.payload, {_EVENT_ID}, o.channels, o.tags, o.ordering_key, o.deliver_at, o.policy, o.trace
"""
_READ = _ROWS.format(columns=_COLUMNS)
_READ_IDS = _ROWS.format(columns="o.id")
_READ_ONE = f"SELECT {_COLUMNS} FROM hookline.outbox o WHERE o.id = $1"  # noqa: S608  constants
_READ_PAYLOAD = """
SELECT payload, md5(concat_ws('|', org_id, app, coalesce(event_id, id::text))) AS hash FROM hookline.outbox WHERE id = $1
"""
# What would take a relay's memory, and longer than a statement may.
_SET_ASIDE = """
UPDATE hookline.outbox SET set_aside_at = now(), error = format(
    'payload: %s bytes, more than %s: too large to be copied, it stays in this database', octet_length(payload), $1::bigint)
WHERE error IS NULL AND octet_length(payload) > $1::bigint RETURNING error
"""
_DELETE = "DELETE FROM hookline.outbox WHERE id = ANY ($1::bigint[])"

_UNREADABLE = (ValueError, OverflowError)  # an instant that Python does not have
# Bytes that are no text, as a database in another encoding than UTF-8 may hold them.
_UNTRANSLATABLE = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError)


class PostgresSource:
    """One relay's view of it. Two of them share the work: each takes rows that the other has not locked."""

    sampled = False

    def __init__(self, url: str, store: Store, *, poll: float) -> None:
        self.name = shown_url(url)
        self._url = url
        self._store = store
        self._connection: Connection | None = None
        self._known = False  # what stands in the database that it leads to
        self._scan = Scan()
        self._watch = OutboxWatch(partial(connect, url), poll=poll)

    async def move(self, limit: int) -> RelayReport:
        async with self._connected() as connection:
            transaction = connection.transaction()
            found = await self._found(connection, transaction, limit)
            if found is None:
                return RelayReport()
            report = await self._store.take(found, source=self.name) if found else await self._left(connection)
            assert report is not None  # only a place can be overtaken
            with reaching(self.name):
                await connection.execute(_DELETE, [row.id for row in found])
                await transaction.commit()
            return replace(report, more=sum(len(row.payload) for row in found) >= MAX_BYTES)

    async def wait(self, timeout: float) -> None:
        await self._watch.wait(timeout)

    async def close(self) -> None:
        await self._watch.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            await closed(connection)

    async def _found(self, connection: Connection, transaction: Any, limit: int) -> list[OutboxRow] | None:
        """None: nothing waits, and the transaction was not even begun."""
        start, began = self._scan.start(), monotonic()
        found = None
        with reaching(self.name):
            if await connection.fetchval(_LOOK, start):
                await transaction.start()
                found = await _read(connection, start, limit)
        self._scan.took(start, monotonic() - began, [row.id for row in found or ()])
        return found

    async def _left(self, connection: Connection) -> RelayReport:
        """Something waits that is not read: others have it, or no deployment could ever send it."""
        with reaching(self.name):
            aside = await connection.fetch(_SET_ASIDE, LARGEST_PAYLOAD)
        return RelayReport(set_aside=len(aside), reasons=reasons(row["error"] for row in aside))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """Whatever goes wrong, also at Hookline's side, ends with its connection: the server gives the rows back."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._url, _MOVING)
            self._known = False
        connection = self._connection
        try:
            if not self._known:
                await check(connection, self.name)
                self._known = True
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
                url, server_settings=dict(settings), timeout=_CONNECT_TIMEOUT, command_timeout=_TIMEOUT
            )
    except ValueError as error:
        # The driver's own text may quote a part of the password.
        raise SourceUnavailable(f"{name}: the URL cannot be used ({type(error).__name__}): check its form") from None
    except asyncpg.PostgresError as error:
        raise SourceUnavailable(f"{name}: {error}") from error


async def closed(connection: Connection) -> None:
    """A server that does not answer is not waited for."""
    try:
        await connection.close(timeout=_CLOSE_TIMEOUT)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        connection.terminate()


async def version(connection: Connection, name: str) -> int:
    """Of the outbox there; 0: there is none. `InvalidInput` for the database of a Hookline."""
    with reaching(name):
        found = await connection.fetchrow(_STANDING)
        if found["hooklines"]:
            raise InvalidInput(
                f"{name} is the own database of a Hookline, which sets its outbox up and relays it itself"
            )
        number: int = await connection.fetchval(_VERSION) if found["there"] and found["has_version"] else 0
        return number


async def check(connection: Connection, name: str) -> None:
    """That it can be relayed from. A newer release's outbox has at least what we need of it."""
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
    """The driver's errors as those of a source."""
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
    return (
        f"{name}: {error.__cause__}; the role of the URL needs the rights of the outbox's owner (GRANT owner TO role)"
    )


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _read(connection: Connection, start: int, limit: int) -> list[OutboxRow]:
    """Locked until the transaction ends."""
    try:
        return [outbox_row(found) for found in await connection.fetch(_READ, start, limit, MAX_BYTES, LARGEST_PAYLOAD)]
    except _UNTRANSLATABLE:
        await connection.execute("ROLLBACK; BEGIN")  # the server's error has ended the transaction
    except _UNREADABLE:
        pass
    listed = await connection.fetch(_READ_IDS, start, limit, MAX_BYTES, LARGEST_PAYLOAD)
    return [await _read_one(connection, found["id"]) for found in listed]


async def _read_one(connection: Connection, row_id: int) -> OutboxRow:
    """One that cannot be read must not keep the others from being."""
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
