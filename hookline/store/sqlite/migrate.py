"""Apply all missing migrations in one transaction under the write lock. A migration cannot be undone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources

from hookline.errors import InvalidInput, MigrationNeeded
from hookline.store.sqlite.transaction import Tx

_FOLDER = ("migrations", "sqlite")
_FOREIGN = "the database holds tables of the same names that are not Hookline's"


@cache
def scripts() -> dict[int, str]:
    """Return the migration scripts by number."""
    folder = resources.files("hookline.store").joinpath(*_FOLDER)
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return {int(file.name.partition("_")[0]): file.read_text(encoding="utf-8") for file in files}


def statements(script: str) -> Iterator[str]:
    """Split a script into statements, because `executescript` would commit the current transaction."""
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""


def version(tx: Tx) -> int:
    if tx.row("migration_exists") is None:
        return 0
    try:
        return int(tx.value("version"))
    except sqlite3.OperationalError as error:
        raise InvalidInput(_FOREIGN) from error


def apply_missing(tx: Tx) -> list[int]:
    """Apply the missing migrations and return their numbers."""
    at, newest = version(tx), max(scripts())
    if at > newest:
        raise MigrationNeeded(
            f"the database is at migration {at}, newer than this release ({newest}): upgrade Hookline"
        )
    missing = sorted(number for number in scripts() if number > at)
    for number in missing:
        apply(tx, number)
    return missing


def apply(tx: Tx, number: int) -> None:
    tx.run("migration_table")
    try:
        for statement in statements(scripts()[number]):
            tx.conn.execute(statement)
    except sqlite3.OperationalError as error:
        if "already exists" in str(error):
            raise InvalidInput(_FOREIGN) from error
        raise
    tx.run("migration_add", (number, tx.now))
