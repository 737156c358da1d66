"""Time moves on without waiting: every instant in the database moves back, so that the real clock is that much later."""

from __future__ import annotations

from datetime import timedelta

from tests.support.raw import Raw

# When a migration was applied is no part of the flow; the steps of charts begin at whole minutes, and move over one another.
_LEFT_ALONE = frozenset({"migration", "activity", "org_activity"})


async def age(raw: Raw, seconds: float) -> None:
    """Let `seconds` pass for all that is stored. Engines remember little between calls; what they do remember must allow it."""
    for table, columns in (await raw.instants()).items():
        if table not in _LEFT_ALONE:
            await _shift(raw, table, columns, seconds)
    await _keep_tokens_recent(raw)


async def _shift(raw: Raw, table: str, columns: list[str], seconds: float) -> None:
    amount = "$1::interval" if raw.engine == "postgres" else "$1"
    by = timedelta(seconds=seconds) if raw.engine == "postgres" else round(seconds * 1_000_000)
    changes = ", ".join(f"{column} = {column} - {amount}" for column in columns)
    await raw.execute(f"UPDATE {table} SET {changes}", by)  # names come from the catalogue of the database itself


async def _keep_tokens_recent(raw: Raw) -> None:
    """A worker that was there all the time would have seen an old token by now: engines look for recent ones first."""
    await raw.execute("UPDATE wake SET at = $1 WHERE at < $1", await raw.now() - timedelta(seconds=1))
