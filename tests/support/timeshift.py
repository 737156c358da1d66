"""Let time pass without waiting: move every instant in the database back, as if the clock had moved forward."""

from __future__ import annotations

from datetime import timedelta

from tests.support.raw import Raw

# The instants of these tables are not moved. The time of a migration does not matter. The steps of charts begin at
# whole minutes, and would collide if they were moved.
_LEFT_ALONE = frozenset({"migration", "activity", "org_activity"})


async def age(raw: Raw, seconds: float) -> None:
    """Let `seconds` pass for everything in the database. State that an engine keeps in memory does not move."""
    for table, columns in (await raw.instants()).items():
        if table not in _LEFT_ALONE:
            await _shift(raw, table, columns, seconds)
    await _keep_tokens_recent(raw)


async def _shift(raw: Raw, table: str, columns: list[str], seconds: float) -> None:
    amount = "$1::interval" if raw.engine == "postgres" else "$1"
    by = timedelta(seconds=seconds) if raw.engine == "postgres" else round(seconds * 1_000_000)
    changes = ", ".join(f"{column} = {column} - {amount}" for column in columns)
    # table and column names come from the database's own catalogue
    await raw.execute(f"UPDATE {table} SET {changes}", by)


async def _keep_tokens_recent(raw: Raw) -> None:
    """Set old wake tokens to a recent time, because engines look for recent tokens first, and a running worker would
    have seen the old ones."""
    await raw.execute("UPDATE wake SET at = $1 WHERE at < $1", await raw.now() - timedelta(seconds=1))
