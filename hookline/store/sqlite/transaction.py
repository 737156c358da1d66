"""A transaction on SQLite runs named statements. It reads the clock once and knows the store's options."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from hookline.rules.claim.rotation import Rotation
from hookline.rules.fanout import Plan
from hookline.security.vault import Vault
from hookline.store.options import StoreOptions
from hookline.store.rows import Reading
from hookline.store.sqlite.clock import StoreClock, instant

T = TypeVar("T")
Params = Sequence[Any] | Mapping[str, Any]

# Statements that change applications, endpoints or event types. After each of them, the cache of `fanout.Plan` objects
# (`Context.plans`) is cleared.
_CATALOGUE = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM) (application|endpoint|event_type)\b")

_texts = msgspec.json.Decoder(tuple[str, ...])
READ = Reading(instant=instant, texts=_texts.decode)


def texts(values: Sequence[str] | None) -> str | None:
    """Encode a list as JSON, for a column that stores a list."""
    return None if values is None else msgspec.json.encode(list(values)).decode()


def numbers(values: Iterable[int]) -> str:
    """Encode numbers as a JSON array, for `json_each`."""
    return "[" + ",".join(map(str, values)) + "]"


def _bare(statement: str) -> str:
    """Remove comments. The driver reads the first word to see whether a statement changes rows."""
    return "\n".join(line for line in statement.splitlines() if not line.startswith("--"))


def with_any_text(conn: sqlite3.Connection, errors: str, read: Callable[[], T]) -> T:
    """Run `read`, which must not write. If a text in the result is not UTF-8, run `read` again and decode texts with
    the error handler `errors`.

    SQLite stores any bytes as text. By default, one text that is not UTF-8 makes the driver fail the whole query.
    """
    try:
        return read()
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
    conn.text_factory = lambda raw: raw.decode(errors=errors)
    try:
        return read()
    finally:
        conn.text_factory = str


class Context:
    """The objects that all transactions of one store share. Only the writer's thread may use `plans` and
    `rotation`."""

    def __init__(self, sql: Mapping[str, str], vault: Vault, options: StoreOptions) -> None:
        self.sql = {name: _bare(text) for name, text in sql.items()}
        self.vault = vault
        self.options = options
        self.clock = StoreClock()
        self.plans: dict[int, Plan | None] = {}
        self.rotation = Rotation()
        self.catalogue_writes = {name for name, text in self.sql.items() if _CATALOGUE.search(text)}


class Tx:
    """One transaction, or one task of a group that shares a commit. Its clock is read once."""

    def __init__(self, conn: sqlite3.Connection, context: Context) -> None:
        self.conn = conn
        self.context = context
        self.sql = context.sql
        self.vault = context.vault
        self.options = context.options
        self.now = context.clock.micros()
        self.announced = False  # True: there is new work, so wake sleeping workers after the commit

    @property
    def at(self) -> datetime:
        return instant(self.now)

    def rows(self, name: str, params: Params = ()) -> list[sqlite3.Row]:
        return self.conn.execute(self.sql[name], params).fetchall()

    def row(self, name: str, params: Params = ()) -> sqlite3.Row | None:
        found: list[sqlite3.Row] = self.conn.execute(self.sql[name], params).fetchmany(1)
        return found[0] if found else None

    def tuples(self, name: str, params: Params = ()) -> list[Any]:
        """Return plain tuples, which are faster than rows."""
        cursor = self.conn.cursor()
        cursor.row_factory = None
        return cursor.execute(self.sql[name], params).fetchall()

    def value(self, name: str, params: Params = ()) -> Any:
        """Return the first column of the first row, or None if there is no row."""
        row = self.row(name, params)
        return None if row is None else row[0]

    def run(self, name: str, params: Params = ()) -> int:
        """Run a statement and return the number of changed rows."""
        return self.conn.execute(self.sql[name], params).rowcount

    def many(self, name: str, batch: Sequence[Params]) -> None:
        if batch:
            self.conn.executemany(self.sql[name], batch)

    def forget_plans(self) -> None:
        """Clear the cache of `fanout.Plan` objects (`Context.plans`), because an application, an endpoint or an event
        type changed."""
        self.context.plans.clear()
