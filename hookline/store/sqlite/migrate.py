"""Numbered migrations, each in one transaction under the write lock. Forward only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources

from hookline.errors import InvalidInput, MigrationNeeded
from hookline.store.sqlite.tx import Tx

_FOLDER = ("migrations", "sqlite")


@cache
def scripts() -> dict[int, str]:
    """By number."""
    folder = resources.files("hookline.store").joinpath(*_FOLDER)
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return {int(file.name.partition("_")[0]): file.read_text(encoding="utf-8") for file in files}


def statements(script: str) -> Iterator[str]:
    """One by one: `executescript` would commit the transaction that it is called in."""
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""


def version(tx: Tx) -> int:
    if not tx.conn.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migration'").fetchall():
        return 0
    try:
        (number,) = tx.conn.execute("SELECT coalesce(max(number), 0) FROM migration").fetchone()
    except sqlite3.OperationalError as error:
        raise InvalidInput("the database holds tables of the same names that are not Hookline's") from error
    return int(number)


def apply_next(tx: Tx) -> int | None:
    """The number that was applied; None when nothing is missing."""
    at, newest = version(tx), max(scripts())
    if at > newest:
        raise MigrationNeeded(
            f"the database is at migration {at}, newer than this release ({newest}): upgrade Hookline"
        )
    missing = [number for number in scripts() if number > at]
    if not missing:
        return None
    number = min(missing)
    _apply(tx, number)
    return number


def _apply(tx: Tx, number: int) -> None:
    tx.conn.execute(
        "CREATE TABLE IF NOT EXISTS migration (number integer PRIMARY KEY, applied_at integer NOT NULL) STRICT"
    )
    try:
        for statement in statements(scripts()[number]):
            tx.conn.execute(statement)
    except sqlite3.OperationalError as error:
        if "already exists" in str(error):
            raise InvalidInput("the database holds tables of the same names that are not Hookline's") from error
        raise
    tx.conn.execute("INSERT INTO migration (number, applied_at) VALUES (?, ?)", (number, tx.now))
