"""Set up the tables of the inbox in a database."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from hookline.errors import InvalidInput
from hookline.outbox import adapters
from hookline.outbox.adapters.base import Adapter, Engine
from hookline.outbox.coroutines import run_sync

# The lock makes two set-ups at once run one after the other. One statement, so that it also holds in autocommit mode.
_POSTGRES = """DO $hookline$ BEGIN
PERFORM pg_catalog.pg_advisory_xact_lock(1214540, 5);
{}
END $hookline$"""


@cache
def sql(engine: Engine) -> str:
    """Return the SQL that creates the tables, for your own migration tool. It is safe to run it again."""
    if engine not in ("postgres", "sqlite"):
        raise InvalidInput(f"the inbox needs postgres or sqlite, not {str(engine)[:60]!r}")
    return (resources.files(__package__) / "sql" / f"{engine}.sql").read_text(encoding="utf-8")


def create_table(conn: Any) -> None:
    """Set up the inbox in the open transaction of any connection that `once` takes. This does not commit."""
    run_sync(_create(adapters.of(conn)))


async def create_table_async(conn: Any) -> None:
    """Do the same as `create_table` on an async connection or session of asyncpg, psycopg or SQLAlchemy."""
    await _create(adapters.of_async(conn))


async def _create(on: Adapter) -> None:
    if on.engine == "postgres":
        await on.run([_POSTGRES.format(sql(on.engine))])
    else:
        await on.run([part for part in sql(on.engine).split(";\n") if part.strip()])
