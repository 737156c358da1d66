"""The inbox in a database: its SQL, and what sets it up on a connection that you have."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from hookline.errors import InvalidInput
from hookline.receive.inbox import adapters
from hookline.receive.inbox.statement import Engine, Statement

# Two that create the same table at once would collide. One statement, so that both also hold where each is committed by itself.
_POSTGRES = """DO $hookline$ BEGIN
PERFORM pg_catalog.pg_advisory_xact_lock(1214540, 5);
{}
END $hookline$"""


@cache
def sql(engine: Engine) -> str:
    """What makes the tables, for your own migration tool. Safe to run again."""
    if engine not in ("postgres", "sqlite"):
        raise InvalidInput(f"the inbox needs postgres or sqlite, not {str(engine)[:60]!r}")
    return (resources.files(__package__) / "sql" / f"{engine}.sql").read_text(encoding="utf-8")


def create_table(conn: Any) -> None:
    """Set the inbox up on any connection that `once` takes, in its transaction; nothing is committed. Safe to run again."""
    on = adapters.of(conn)
    for statement in _statements(on.engine):
        on.fetch(statement, {})


async def create_table_async(conn: Any) -> None:
    """`create_table` on a connection or session of asyncpg, psycopg's AsyncConnection, or SQLAlchemy's async ones."""
    on = adapters.of_async(conn)
    for statement in _statements(on.engine):
        await on.fetch(statement, {})


def _statements(engine: Engine) -> list[Statement]:
    if engine == "postgres":
        return [Statement(_POSTGRES.format(sql(engine)))]
    return [Statement(part) for part in sql(engine).split(";\n") if part.strip()]
