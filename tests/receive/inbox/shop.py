"""Reads an application's database over a separate connection. It imports little because child processes use it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg

from hookline.receive import inbox

TABLES = ("hookline_inbox", "hookline_inbox_event", "hookline_inbox_copy", "hookline_inbox_effect", "payments")


class Shop:
    """Reads the committed rows over a separate connection. The table `payments` has no unique constraint, so that
    duplicate effects are visible."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = "postgres" if "://" in url else "sqlite"

    def connect(self) -> Any:
        if self.engine == "postgres":
            return psycopg.connect(self.url)
        return sqlite3.connect(self.url, timeout=60)

    def set_up(self) -> None:
        with closing(self.connect()) as conn:
            inbox.create_table(conn)
            conn.execute("CREATE TABLE IF NOT EXISTS payments (key text NOT NULL)")
            for table in TABLES:
                conn.execute(f"DELETE FROM {table}")
            conn.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as conn:
            found: list[tuple[Any, ...]] = conn.execute(query).fetchall()
            return found

    def run(self, *statements: str) -> None:
        with closing(self.connect()) as conn:
            for statement in statements:
                conn.execute(statement)
            conn.commit()

    def payments(self) -> list[str]:
        return [key for (key,) in self.rows("SELECT key FROM payments ORDER BY key")]

    def recorded(self) -> list[tuple[str, str]]:
        return [(scope, key) for scope, key in self.rows("SELECT scope, key FROM hookline_inbox ORDER BY scope, key")]

    def states(self) -> dict[str, str]:
        return dict(self.rows("SELECT key, state FROM hookline_inbox_event"))

    def report(self) -> inbox.Report:
        with closing(self.connect()) as conn:
            return inbox.report(conn)

    def accept(self, *keys: str, event_type: str = "order.paid", body: bytes = b"{}") -> list[bool]:
        with closing(self.connect()) as conn:
            new = [inbox.accept(conn, body, key=key, event_type=event_type) for key in keys]
            conn.commit()
            return new


def pay(conn: Any, event: inbox.Event) -> None:
    """A handler for sqlite3 and psycopg connections."""
    conn.execute(f"INSERT INTO payments VALUES ('{event.key}')")
