"""A shop that publishes each order in the transaction that writes it, until it is killed:

    python -m tests.support.shop URL [SECONDS]

It waits SECONDS after each order. Each line that it prints is one step of one order. It rolls back `lost`
orders on purpose.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg

from hookline import outbox

_TABLE = "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY)"
_INSERT = "INSERT INTO orders VALUES ({})"


class Lost(Exception):
    """The customer's card was declined in the middle of an order."""


def main(url: str, pause: float = 0.0) -> None:
    chance = random.Random()
    with opened(url) as (begin, insert):
        while True:
            order = uuid.uuid4().hex
            declined = chance.random() < 0.25
            print("lost" if declined else "begun", order, flush=True)
            with suppress(Lost), begin() as conn:
                conn.execute(insert, (order,))
                outbox.publish(conn, "shop", "order.paid", {"order": order}, max_age=86_400)
                if declined:
                    raise Lost
            if not declined:
                print("committed", order, flush=True)
            time.sleep(pause)  # limits the load on a machine that has other work


@contextmanager
def opened(url: str) -> Iterator[tuple[Callable[[], Any], str]]:
    """Connect to the database. Yield a function that begins a transaction, and the SQL statement that inserts an
    order."""
    if url.startswith("sqlite:///"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)
        with closing(file):
            yield lambda: _exclusive(file), _INSERT.format("?")
    else:
        with psycopg.connect(url, autocommit=True) as database:
            yield lambda: _transaction(database), _INSERT.format("%s")


@contextmanager
def _exclusive(file: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    file.execute("BEGIN IMMEDIATE")
    try:
        yield file
    except BaseException:
        file.execute("ROLLBACK")
        raise
    file.execute("COMMIT")


@contextmanager
def _transaction(database: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    with database.transaction():
        yield database


def prepare(url: str) -> None:
    """Create the table of orders."""
    if url.startswith("sqlite:///"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute(_TABLE)
        file.close()
        return
    with psycopg.connect(url) as database:
        database.execute(_TABLE)


def orders(url: str) -> set[str]:
    """Return the orders that were committed."""
    if url.startswith("sqlite:///"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"))
        found = {order for (order,) in file.execute("SELECT id FROM orders")}
        file.close()
        return found
    with psycopg.connect(url) as database:
        # A killed shop may still have a COMMIT under way at the server. Wait for it.
        database.execute("LOCK TABLE orders IN SHARE MODE")
        return {order for (order,) in database.execute("SELECT id FROM orders")}


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
