"""The outbox in a database: its SQL, and what sets it up or takes it out on a connection that you have.

`sql("postgres")` is for your own migration tool. Django has `hookline.outbox.django`, Alembic has `hookline.outbox.alembic`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

from hookline.errors import Conflict, InvalidInput
from hookline.outbox import marker
from hookline.outbox.handle import Engine, Handle, Rows, handle, handle_async

VERSION = 1  # what `hookline.outbox_version()` says where sql/postgres.sql has been run

# On PostgreSQL the source of that function, from the catalogue: a role that may not use the schema can still see it.
FIND: dict[Engine, str] = {
    "postgres": "SELECT p.prosrc FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
    "WHERE n.nspname = 'hookline' AND p.proname = 'outbox_version'",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'hookline_outbox'",
}
# The same lock as `hookline migrate`: whoever comes second waits for the first.
_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(1214540, 1)"

# Function bodies, texts and comments have semicolons of their own.
_STATEMENT = re.compile(r"(?:--[^\n]*|'[^']*'|\$(\w*)\$.*?\$\1\$|[^;])+", re.DOTALL)
_COMMENT = re.compile(r"\s*--[^\n]*")

_KEEP_SQLITE = "-- hookline_outbox stays: SQL alone cannot refuse to drop it while events wait in it"


@cache
def sql(engine: Engine) -> str:
    """What makes the outbox. Safe to run again; on PostgreSQL also beside Hookline's own tables."""
    return _read(_known(engine))


@cache
def statements(engine: Engine) -> tuple[str, ...]:
    """The same, for drivers that take one statement at a time."""
    return _split(sql(engine))


@cache
def drop_statements(engine: Engine) -> tuple[str, ...]:
    """What takes it out again, for tools that print SQL. It refuses while events wait, which on SQLite only `drop_table` can."""
    return _split(_read("postgres_drop")) if _known(engine) == "postgres" else (_KEEP_SQLITE,)


def create_table(conn: Any) -> None:
    """Set the outbox up on any connection that `publish` takes, in its transaction; nothing is committed.

    Leaves a PostgreSQL database as it is that has this version already: another role may have made it, for Hookline itself.
    """
    on = handle(conn)
    if not is_there(on):
        on.run(_with_lock(on.engine))


async def create_table_async(conn: Any) -> None:
    """`create_table` on a connection or session of asyncpg, psycopg's AsyncConnection, or SQLAlchemy's async ones."""
    on = handle_async(conn)
    engine = await on.engine()
    if not is_set_up(engine, await on.fetch(FIND[engine])):
        await on.run(_with_lock(engine))


def drop_table(conn: Any) -> None:
    """Take the outbox out again, in the open transaction. Refuses while events wait in it.

    On PostgreSQL it stays, without an error, where Hookline's own tables are beside it or another role made it.
    """
    on = handle(conn)
    if on.engine == "postgres":
        on.run(drop_statements("postgres"))
    elif is_there(on):
        _refuse_while_waiting(on)
        on.run(["DROP TABLE hookline_outbox"])


def is_there(on: Handle) -> bool:
    """Whether this database has the outbox in this version, or in one that is newer."""
    return is_set_up(on.engine, on.fetch(FIND[on.engine]))


def is_set_up(engine: Engine, found: Rows) -> bool:
    """The same, by the rows of `FIND`."""
    if engine == "sqlite":
        return bool(found)
    numbers = [re.search(r"\d+", source) for (source,) in found]
    return any(number is not None and int(number[0]) >= VERSION for number in numbers)


def _with_lock(engine: Engine) -> tuple[str, ...]:
    return (_LOCK, *statements(engine)) if engine == "postgres" else statements(engine)


def _refuse_while_waiting(on: Handle) -> None:
    [(waiting,)] = on.fetch(f"SELECT count(*) FROM hookline_outbox WHERE id > {_relayed(on)}")  # noqa: S608  a number
    if waiting:
        raise Conflict(
            f"hookline_outbox still has {waiting} event(s): let Hookline relay them, or delete them if nobody is to get them"
        )


def _relayed(on: Handle) -> int:
    """The last row of a SQLite file that Hookline has copied, if it is still known; 0: every row waits."""
    file = next((str(file) for _, name, file in on.fetch("PRAGMA database_list") if name == "main" and file), "")
    place = marker.read(file) if file else None
    if place is None:
        return 0
    found = on.fetch(f"SELECT uid FROM hookline_outbox WHERE id = {place.row_id:d}")  # noqa: S608  a number
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
