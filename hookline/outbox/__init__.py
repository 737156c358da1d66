"""Publish inside your own transaction: if it commits, the webhook is sent; if it rolls back, it never existed.

    from hookline import outbox

    with conn:  # the transaction that writes the order
        conn.execute("INSERT INTO orders ...")
        outbox.publish(conn, "acme", "order.paid", {"order": 7, "total": "19.90"})

`conn` is the connection (or session) that you already have: sqlite3, psycopg 3, psycopg2, SQLAlchemy or Django. The async twin
takes those of asyncpg, psycopg and SQLAlchemy. Nothing is sent and nothing committed here: the event is a row of your
transaction, and Hookline finds it once you commit. docs/guides/set-up-the-outbox.md says how to create the table.
"""

from hookline.errors import HooklineError, InvalidInput
from hookline.outbox.errors import NotInTransaction, UnknownConnection
from hookline.outbox.event import Event, event
from hookline.outbox.publish import publish, publish_async, publish_many, publish_many_async

__all__ = [
    "Event",
    "HooklineError",
    "InvalidInput",
    "NotInTransaction",
    "UnknownConnection",
    "event",
    "publish",
    "publish_async",
    "publish_many",
    "publish_many_async",
]
