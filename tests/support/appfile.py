"""An application's own SQLite file, with the outbox in it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from hookline import outbox
from hookline.outbox import marker
from hookline.outbox.setup import sql


class AppFile:
    """The SQLite file of an application. It opens a connection for each transaction, unless the test passes its own."""

    def __init__(self, path: Path, *, mode: str = "wal") -> None:
        self.path = path
        self.mode = mode

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    @property
    def marker(self) -> Path:
        return marker.path_of(self.path)

    def make(self) -> AppFile:
        with closing(self.connect()) as conn:
            conn.execute(f"PRAGMA journal_mode = {self.mode}")
            conn.executescript(sql("sqlite"))
            conn.execute("CREATE TABLE orders (id integer PRIMARY KEY, note text)")
            conn.commit()
        return self

    def connect(self, **options: Any) -> sqlite3.Connection:
        return sqlite3.connect(self.path, **({"timeout": 60} | options))

    def publish(self, app: str, count: int = 1, **fields: Any) -> list[str]:
        """Publish events in one transaction and return their event ids."""
        with closing(self.connect()) as conn, conn:
            return [outbox.publish(conn, app, "order.paid", {"n": n}, **fields) for n in range(count)]

    def insert(self, **fields: Any) -> None:
        """Insert a row by SQL. The test gives the columns, and may give wrong values."""
        given = {"app": "acme", "event_type": "order.paid", "payload": json.dumps({"by": "hand"})} | fields
        marks = ", ".join("?" * len(given))
        self.execute(f"INSERT INTO hookline_outbox ({', '.join(given)}) VALUES ({marks})", *given.values())

    def execute(self, statement: str, *values: object) -> list[Any]:
        with closing(self.connect()) as conn, conn:
            return conn.execute(statement, values).fetchall()

    def ids(self) -> list[int]:
        return [id_ for (id_,) in self.execute("SELECT id FROM hookline_outbox ORDER BY id")]
