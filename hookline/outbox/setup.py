"""Set up the outbox in a database, or remove it.

`sql("postgres")` is for your own migration tool. Django has `hookline.outbox.django`, Alembic has
`hookline.outbox.alembic`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

from hookline.errors import Conflict, InvalidInput
from hookline.outbox import adapters
from hookline.outbox.adapters.base import Adapter, Engine
from hookline.outbox.adapters.prune import LIST_FILES, marked_place
from hookline.outbox.coroutines import run_sync

VERSION = 1  # the result of `hookline.outbox_version()` in a database with this release's sql/postgres.sql

# The query for PostgreSQL reads the source of `hookline.outbox_version()` from the catalogue. A role without rights to
# the schema can read the catalogue too.
_FIND: dict[Engine, str] = {
    "postgres": "SELECT p.prosrc FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
    "WHERE n.nspname = 'hookline' AND p.proname = 'outbox_version'",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'hookline_outbox'",
}
# `hookline migrate` takes the same lock, so that two set-ups at once run one after the other.
LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(1214540, 1)"

# Matches one statement. Function bodies, strings and comments in it may contain semicolons.
_STATEMENT = re.compile(r"(?:--[^\n]*|'[^']*'|\$(\w*)\$.*?\$\1\$|[^;])+", re.DOTALL)
_COMMENT = re.compile(r"\s*--[^\n]*")

_KEEP_SQLITE = "-- hookline_outbox is kept: SQL alone cannot check that no events wait in it"


@cache
def sql(engine: Engine) -> str:
    """Return the SQL that creates the outbox. It is safe to run it again, and to run it beside Hookline's own
    tables."""
    return _read(_known(engine))


@cache
def statements(engine: Engine) -> tuple[str, ...]:
    """Split the result of `sql(engine)` into single statements, for drivers that run one statement per call."""
    return _split(sql(engine))


@cache
def drop_statements(engine: Engine) -> tuple[str, ...]:
    """Return the SQL that removes the outbox, for tools that print SQL.

    On PostgreSQL this SQL fails while events wait in the outbox. On SQLite it is only a comment and removes nothing,
    because SQL alone cannot check there whether events wait: use `drop_table`.
    """
    return _split(_read("postgres_drop")) if _known(engine) == "postgres" else (_KEEP_SQLITE,)


def create_table(conn: Any) -> None:
    """Set up the outbox in the open transaction of any connection that `publish` takes. Nothing is committed.

    If a PostgreSQL database already has an outbox of this version or a newer one, change nothing. Another role may own
    that outbox, for example the role that installed Hookline in the database. The role of `conn` then has no right to
    change the outbox.
    """
    run_sync(_create(adapters.of(conn)))


async def create_table_async(conn: Any) -> None:
    """Do the same as `create_table` on an async connection or session of asyncpg, psycopg or SQLAlchemy."""
    await _create(adapters.of_async(conn))


def drop_table(conn: Any) -> None:
    """Remove the outbox, in the open transaction. Fails while events wait in it.

    On PostgreSQL the outbox stays, without an error, if Hookline's own tables are beside it or if another role made
    it.
    """
    run_sync(_drop(adapters.of(conn)))


def is_there(conn: Any) -> bool:
    """Return whether the database has the outbox, in this version or a newer one."""
    return run_sync(_is_there(adapters.of(conn)))


async def _create(on: Adapter) -> None:
    if not await _is_there(on):
        await on.run([LOCK, *statements(on.engine)] if on.engine == "postgres" else statements(on.engine))


async def _drop(on: Adapter) -> None:
    if on.engine == "postgres":
        await on.run(drop_statements("postgres"))
    elif await _is_there(on):
        await _refuse_while_waiting(on)
        await on.run(["DROP TABLE hookline_outbox"])


async def _is_there(on: Adapter) -> bool:
    found = await on.peek(_FIND[on.engine])
    if on.engine == "sqlite":
        return bool(found)
    numbers = [re.search(r"\d+", source) for (source,) in found]
    return any(number is not None and int(number[0]) >= VERSION for number in numbers)


async def _refuse_while_waiting(on: Adapter) -> None:
    last = await _last_relayed(on)
    [(waiting,)] = await on.peek(f"SELECT count(*) FROM hookline_outbox WHERE id > {last}")  # noqa: S608  a number
    if waiting:
        advice = "let Hookline relay them, or delete them if nobody needs them"
        raise Conflict(f"hookline_outbox still has {waiting} event(s): {advice}")


async def _last_relayed(on: Adapter) -> int:
    """Return the id of the last row that Hookline has relayed from a SQLite file.

    Return 0 if that row is not known. Then every row counts as not relayed.
    """
    place = marked_place(await on.peek(LIST_FILES))
    if place is None:
        return 0
    found = await on.peek(f"SELECT uid FROM hookline_outbox WHERE id = {place.row_id:d}")  # noqa: S608  a number
    return place.row_id if found == [(place.row_uid,)] else 0


def _known(engine: str) -> str:
    if engine not in ("postgres", "sqlite"):
        raise InvalidInput(f"the outbox needs postgres or sqlite, not {engine[:60]!r}")
    return engine


def _read(name: str) -> str:
    return (resources.files("hookline.outbox") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def _split(text: str) -> tuple[str, ...]:
    parts = (found[0].strip() for found in _STATEMENT.finditer(text))
    return tuple(part for part in parts if _COMMENT.sub("", part).strip())
