"""An application on SQLite that reads and then writes in one transaction, as Flask and Django applications do:

    python -m tests.support.sqlite_publisher FILE APP COUNT TIMEOUT session|request

It runs one transaction after the other, so only Hookline can block it. It runs COUNT transactions, continues until its
input ends, and commits one more order. It prints the committed and rolled-back events and every error as one JSON
document.
"""

from __future__ import annotations

import json
import select
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from hookline import outbox

WORK = 0.001  # seconds between the read and the write


def main(file: str, app: str, count: str, timeout: str, lifetime: str) -> None:
    publisher = Publisher(Path(file), app, float(timeout), per_request=lifetime == "request")
    number = 0
    while number < int(count) or not _input_ended():
        publisher.order(number, pays=number % 5 != 0)
        number += 1
    publisher.order(number, pays=True)
    print(
        json.dumps({"committed": publisher.committed, "rolled_back": publisher.rolled_back, "errors": publisher.errors})
    )


def _input_ended() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


class Publisher:
    def __init__(self, file: Path, app: str, timeout: float, *, per_request: bool) -> None:
        self._file = file
        self._app = app
        self._timeout = timeout
        self._per_request = per_request
        self._conn: sqlite3.Connection | None = None
        self.committed: list[str] = []
        self.rolled_back: list[str] = []
        self.errors: list[str] = []

    def order(self, number: int, *, pays: bool) -> None:
        event_id = f"order-{number}"
        try:
            conn = self._open()
            conn.execute("BEGIN")
            (seen,) = conn.execute("SELECT count(*) FROM orders").fetchone()
            time.sleep(WORK)
            conn.execute("INSERT INTO orders (note) VALUES (?)", (f"after {seen}",))
            outbox.publish(conn, self._app, "order.paid", {"order": number}, event_id=event_id)
            conn.execute("COMMIT" if pays else "ROLLBACK")
            (self.committed if pays else self.rolled_back).append(event_id)
        except sqlite3.Error as error:
            self._failed(error)
        if self._per_request:
            self._close()

    def _open(self) -> sqlite3.Connection:
        if self._conn is None:
            self._conn = sqlite3.connect(self._file, timeout=self._timeout, isolation_level=None)
        return self._conn

    def _failed(self, error: Any) -> None:
        self.errors.append(f"{error} ({error.sqlite_errorname})")
        self._close()

    def _close(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = None


if __name__ == "__main__":
    main(*sys.argv[1:])
