"""The functions of the inbox. All of them work in the open transaction of the given connection, and do not commit.

The functions whose names end in `_async` take async connections or sessions of asyncpg, psycopg or SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from datetime import date, timedelta
from functools import cache
from importlib import resources
from typing import Any, TypedDict, Unpack

from hookline.errors import InvalidInput
from hookline.outbox import adapters
from hookline.outbox.adapters.base import Adapter, Engine
from hookline.outbox.coroutines import as_sync, run_sync
from hookline.receive.inbox import checks, queries, wake
from hookline.receive.inbox.model import Day, DeadEvent, Report
from hookline.receive.inbox.queries import KEPT, STEP
from hookline.receive.verify import Webhook
from hookline.rules.checks.text import check_whole

MAX_DAYS = 366  # maximum days of a report
MAX_STEP = 100_000  # rows that one call deletes or returns at most

# ── once ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def once(conn: Any, key: str, scope: str = "") -> AbstractContextManager[bool]:
    """Record `key` in the open transaction of `conn`. The value after `as` is True if the key is new, else False.
    The block runs in both cases.

        with conn.transaction(), inbox.once(conn, webhook.id) as first:  # psycopg
            if first:
                conn.execute("UPDATE accounts SET ...")

    Commit after the block, as you always do. A rollback of the transaction also removes the key. If the block raises,
    the key and the effect are undone at once, by a savepoint, whether or not you commit the transaction.

    `key` is the id that all copies of an event share, with 1 to 256 characters. `scope` names the owner of the key, if
    several senders or tenants share the table. The same key in another scope is another key.

    On PostgreSQL, a copy that arrives while the transaction of the first request is open waits until that transaction
    ends. If it is rolled back, the key is new for the copy. On SQLite every writer waits for the writer before it.
    Raises `NotInTransaction` for a connection that commits each statement by itself.
    """
    return as_sync(_once(adapters.of(conn), key, scope))


def once_async(conn: Any, key: str, scope: str = "") -> AbstractAsyncContextManager[bool]:
    """Do the same as `once` on an async connection or session of asyncpg, psycopg or SQLAlchemy."""
    return _once(adapters.of_async(conn), key, scope)


@asynccontextmanager
async def _once(on: Adapter, key: str, scope: str) -> AsyncIterator[bool]:
    name, owner = checks.check_key(key), checks.check_str("scope", scope)
    await on.check()
    async with on.nested():
        yield await queries.record(on, owner, name)


# ── accept ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class AcceptOptions(TypedDict, total=False):
    """The options of `accept`, which documents them."""

    key: str | None
    event_type: str | None
    scope: str
    headers: Iterable[str]


def accept(conn: Any, webhook: Webhook | bytes, **options: Unpack[AcceptOptions]) -> bool:
    """Store an event for the worker in the open transaction of `conn`. Return False if it is a copy. Commit, then
    answer 200.

    webhook     the result of `Verifier.verify`, or the bytes of the body
    key         the id that all copies of the event share. The default is the webhook's own id
    event_type  the type that selects the handler. The default is the webhook's own type
    scope       the owner of the key, if several senders or tenants share the table
    headers     names of the headers that the handler needs. Other headers are not stored

    The keys of `accept` and `once` are separate: a handler may use the same key again for `once`.
    """
    return run_sync(_accept(adapters.of(conn), webhook, **options))


async def accept_async(conn: Any, webhook: Webhook | bytes, **options: Unpack[AcceptOptions]) -> bool:
    """Do the same as `accept` on an async connection or session of asyncpg, psycopg or SQLAlchemy."""
    return await _accept(adapters.of_async(conn), webhook, **options)


async def _accept(
    on: Adapter,
    webhook: Webhook | bytes,
    *,
    key: str | None = None,
    event_type: str | None = None,
    scope: str = "",
    headers: Iterable[str] = (),
) -> bool:
    if isinstance(webhook, Webhook):
        key = webhook.id if key is None else key
        event_type = webhook.event_type if event_type is None else event_type
    values = (
        checks.check_str("scope", scope),
        checks.check_key(key),
        checks.check_event_type(event_type),
        checks.check_body(webhook.body if isinstance(webhook, Webhook) else webhook),
        checks.check_headers(webhook, headers),
    )
    await on.check()
    new = await queries.accept(on, *values)
    wake.wake_workers()
    return new


# ── dead events, clean-up ─────────────────────────────────────────────────────────────────────────────────────────────


def clean(conn: Any, older_than: float | timedelta = KEPT, *, limit: int = STEP) -> int:
    """Delete keys, records of ignored copies, and finished events that are older than `older_than`. Return how many
    rows were deleted. One call deletes at most `limit` rows of each table, so call it until it returns 0:

        while inbox.clean(conn):
            conn.commit()

    A copy that arrives after its key was deleted has an effect again. `report` counts this second effect, because
    records of effects are kept for twice `older_than`. Open and dead events are never deleted.
    """
    return run_sync(_clean(adapters.of(conn), older_than, limit))


async def clean_async(conn: Any, older_than: float | timedelta = KEPT, *, limit: int = STEP) -> int:
    return await _clean(adapters.of_async(conn), older_than, limit)


async def _clean(on: Adapter, older_than: float | timedelta, limit: int) -> int:
    return await queries.clean(on, checks.check_age(older_than), check_whole("limit", limit, 1, MAX_STEP))


def dead(conn: Any, *, after: int = 0, limit: int = 100) -> list[DeadEvent]:
    """Return dead events, oldest first. `after` is the last id of the previous page."""
    return run_sync(queries.dead(adapters.of(conn), checks.check_id(after), check_whole("limit", limit, 1, MAX_STEP)))


async def dead_async(conn: Any, *, after: int = 0, limit: int = 100) -> list[DeadEvent]:
    return await queries.dead(adapters.of_async(conn), checks.check_id(after), check_whole("limit", limit, 1, MAX_STEP))


def replay(conn: Any, ids: int | Iterable[int]) -> int:
    """Make dead events due at once, with 0 attempts and a new time budget. Return how many were replayed. Ids of events
    that are not dead are skipped."""
    return run_sync(_replay(adapters.of(conn), ids))


async def replay_async(conn: Any, ids: int | Iterable[int]) -> int:
    return await _replay(adapters.of_async(conn), ids)


async def _replay(on: Adapter, ids: int | Iterable[int]) -> int:
    replayed = await queries.replay(on, checks.check_ids(ids))
    wake.wake_workers()
    return replayed


def resolve(conn: Any, ids: int | Iterable[int]) -> int:
    """Close dead events without handling them.

    Their bodies are deleted, and copies are still ignored. Return how many were closed.
    """
    return run_sync(queries.resolve(adapters.of(conn), checks.check_ids(ids)))


async def resolve_async(conn: Any, ids: int | Iterable[int]) -> int:
    return await queries.resolve(adapters.of_async(conn), checks.check_ids(ids))


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def report(conn: Any, days: int = 7) -> Report:
    """Count the webhooks and effects of the last `days` UTC days, including today.

    The report counts stored rows only. `clean` deletes the rows of webhooks, by default after 30 days.
    """
    return run_sync(_report(adapters.of(conn), days))


async def report_async(conn: Any, days: int = 7) -> Report:
    return await _report(adapters.of_async(conn), days)


async def _report(on: Adapter, days: int) -> Report:
    """Return a report with every day, including days without webhooks."""
    found = await queries.days(on, check_whole("days", days, 1, MAX_DAYS))
    today, waiting, overdue, dead = await queries.backlog(on)
    last = date.fromisoformat(today)
    names = [(last - timedelta(days=ago)).isoformat() for ago in reversed(range(days))]
    all_days = tuple(found.get(name, Day(day=name)) for name in names)
    return Report(days=all_days, waiting=waiting, overdue=overdue, dead=dead)


# ── set-up ────────────────────────────────────────────────────────────────────────────────────────────────────────────


# The lock makes concurrent set-ups run one after the other. Everything is in one statement, so that the lock also works
# in autocommit mode.
_POSTGRES = """DO $hookline$ BEGIN
PERFORM pg_catalog.pg_advisory_xact_lock(1214540, 5);
{}
END $hookline$"""


@cache
def sql(engine: Engine) -> str:
    """Return the SQL that creates the tables, for your own migration tool. It is safe to run it again."""
    if engine not in ("postgres", "sqlite"):
        raise InvalidInput(f"the inbox needs postgres or sqlite, not {str(engine)[:60]!r}")
    return (resources.files(__package__) / "sql" / f"{engine}.sql").read_text(encoding="utf-8")


def create_table(conn: Any) -> None:
    """Set up the inbox in the open transaction of any connection that `once` takes. This does not commit."""
    run_sync(_create(adapters.of(conn)))


async def create_table_async(conn: Any) -> None:
    """Do the same as `create_table` on an async connection or session of asyncpg, psycopg or SQLAlchemy."""
    await _create(adapters.of_async(conn))


async def _create(on: Adapter) -> None:
    if on.engine == "postgres":
        await on.run([_POSTGRES.format(sql(on.engine))])
    else:
        await on.run([part for part in sql(on.engine).split(";\n") if part.strip()])
