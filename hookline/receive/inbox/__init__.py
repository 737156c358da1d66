"""Exactly one effect per webhook: its key is stored in the same transaction as the effect, so the database commits
both or neither.

    from hookline.receive import inbox

    with conn.transaction(), inbox.once(conn, webhook.id) as first:  # psycopg
        if first:
            conn.execute("INSERT INTO payments ...")

Or acknowledge first and process later: `inbox.accept(conn, webhook)` stores the event, and an `InboxWorker` runs the
handler and retries it.

`conn` is the connection or session that you already have: sqlite3, psycopg 3, psycopg2, SQLAlchemy or Django. The
functions whose names end in `_async` take async connections and sessions of asyncpg, psycopg and SQLAlchemy. No
function commits. docs/guides/deduplicate-with-the-inbox.md explains how to set up the tables.
"""

from typing import TYPE_CHECKING, Any

from hookline.errors import HooklineError, InvalidInput
from hookline.model.policy import RetryPolicy
from hookline.outbox.errors import NotInTransaction, UnknownConnection
from hookline.receive.inbox.functions import (
    accept,
    accept_async,
    clean,
    clean_async,
    create_table,
    create_table_async,
    dead,
    dead_async,
    once,
    once_async,
    replay,
    replay_async,
    report,
    report_async,
    resolve,
    resolve_async,
    sql,
)
from hookline.receive.inbox.model import Day, DeadEvent, Event, Report
from hookline.receive.inbox.worker import InboxWorker

if TYPE_CHECKING:
    from hookline.receive.inbox.worker_async import AsyncInboxWorker

__all__ = [
    "AsyncInboxWorker",
    "Day",
    "DeadEvent",
    "Event",
    "HooklineError",
    "InboxWorker",
    "InvalidInput",
    "NotInTransaction",
    "Report",
    "RetryPolicy",
    "UnknownConnection",
    "accept",
    "accept_async",
    "clean",
    "clean_async",
    "create_table",
    "create_table_async",
    "dead",
    "dead_async",
    "once",
    "once_async",
    "replay",
    "replay_async",
    "report",
    "report_async",
    "resolve",
    "resolve_async",
    "sql",
]


def __getattr__(name: str) -> Any:
    """Import the async worker on its first use, so that an application without asyncio does not load it."""
    if name == "AsyncInboxWorker":
        from hookline.receive.inbox.worker_async import AsyncInboxWorker

        return AsyncInboxWorker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
