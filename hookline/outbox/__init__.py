"""Publish inside your own transaction: Hookline sends the webhook if the transaction commits, and only then.

    from hookline import outbox

    with conn:  # the transaction that writes the order
        conn.execute("INSERT INTO orders ...")
        outbox.publish(conn, "acme", "order.paid", {"order": 7, "total": "19.90"})

`conn` is the connection or session that you already have: sqlite3, psycopg 3, psycopg2, SQLAlchemy or Django.
`publish_async` takes async connections and sessions of asyncpg, psycopg and SQLAlchemy. Neither function sends or
commits anything: it writes a row in your transaction, and Hookline finds the row after your commit.
docs/guides/set-up-the-outbox.md explains how to set up the table.
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
