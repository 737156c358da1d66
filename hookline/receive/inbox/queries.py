"""The database operations of the inbox. Each works on any adapter, async or not, and on both engines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from hookline import clock
from hookline.outbox.adapters.base import Adapter, Rows
from hookline.outbox.adapters.explain import explained, sqlstate
from hookline.receive.inbox import statements as sql
from hookline.receive.inbox.model import Claim, Day, DeadEvent, Event
from hookline.receive.inbox.statements import Pair

T = TypeVar("T", Event, DeadEvent)

KEPT = timedelta(days=30)  # how long keys are kept: as long as a sender can replay a webhook
STEP = 1000  # rows of each table that one clean-up step deletes at most
DIED = "the worker ended before the handler did"

_UNDEFINED_TABLE = "42P01"
_MISSING = (
    "Hookline's inbox is not in this database: `hookline.receive.inbox.create_table(conn)` sets it up. "
    "`python -m hookline.receive.inbox postgres` (or sqlite) prints the SQL."
)


async def _fetch(on: Adapter, statement: Pair, **values: Any) -> Rows:
    """Run a statement. Every statement may also use `:now`, in microseconds since 1970."""
    with explained(_advice):
        return await on.fetch(statement.on(on.engine), {"now": clock.to_micros(clock.wall()), **values})


def _advice(error: Any) -> str | None:
    is_missing = sqlstate(error) == _UNDEFINED_TABLE or str(error).startswith("no such table: hookline_inbox")
    return _MISSING if is_missing else None


# ── queries of `once` and `accept` ────────────────────────────────────────────────────────────────────────────────


async def record(on: Adapter, scope: str, key: str) -> bool:
    """Record a key. Return True if it was not recorded before."""
    values = {"flow": "once", "scope": scope, "key": key}
    if on.engine == "postgres":
        return bool(await _fetch(on, sql.RECORD_AND_COUNT, **values))
    first = bool(await _fetch(on, sql.RECORD, **values))
    await _fetch(on, sql.EFFECT if first else sql.COPY, **values)
    return first


async def accept(
    on: Adapter, scope: str, key: str, event_type: str | None, body: bytes, headers: dict[str, str]
) -> bool:
    """Store an event. Return True if it is new."""
    kept = msgspec.json.encode(headers).decode() if headers else None
    values = {"flow": "worker", "scope": scope, "key": key, "event_type": event_type, "body": body, "headers": kept}
    if on.engine == "postgres":
        return bool(await _fetch(on, sql.ACCEPT_AND_COUNT, **values))
    new = bool(await _fetch(on, sql.ACCEPT, **values))
    if not new:
        await _fetch(on, sql.COPY, **values)
    return new


# ── queries of the worker ─────────────────────────────────────────────────────────────────────────────────────────


async def claim(on: Adapter, token: str, lease: float) -> Claim | None:
    """Claim the event that is due first, for `lease` seconds. Return None if no event is due."""
    rows = await _fetch(on, sql.CLAIM, token=token, lease=float(lease), died=DIED)
    for number, *columns, age in rows:
        return Claim(id=number, token=token, age=float(age), event=_filled(Event, columns))
    return None


async def finish(on: Adapter, claimed: Claim) -> bool:
    """Mark an event as done. Return False, and write nothing, if another worker has it now."""
    values = {"flow": "worker", "id": claimed.id, "token": claimed.token}
    if on.engine == "postgres":
        return bool(await _fetch(on, sql.FINISH_AND_COUNT, **values))
    rows = await _fetch(on, sql.FINISH, **values)
    for scope, key in rows:
        await _fetch(on, sql.EFFECT, flow="worker", scope=scope, key=key)
    return bool(rows)


async def is_finished(on: Adapter, claimed: Claim) -> bool:
    return bool(await _fetch(on, sql.FINISHED, id=claimed.id))


async def retry(on: Adapter, claimed: Claim, error: str, delay: float) -> bool:
    """Schedule the next attempt after `delay` seconds. Return False if the claim is lost."""
    return bool(await _fetch(on, sql.RETRY, id=claimed.id, token=claimed.token, error=error, delay=float(delay)))


async def bury(on: Adapter, claimed: Claim, error: str, reason: str, attempts: int) -> bool:
    """Mark an event as dead. Return False if the claim is lost."""
    values = {"error": error, "reason": reason, "attempts": attempts}
    return bool(await _fetch(on, sql.BURY, id=claimed.id, token=claimed.token, **values))


# ── dead events, clean-up, report ─────────────────────────────────────────────────────────────────────────────────


async def dead(on: Adapter, after: int, limit: int) -> list[DeadEvent]:
    rows = await _fetch(on, sql.DEAD, after=after, limit=limit)
    return [_filled(DeadEvent, row) for row in rows]


async def replay(on: Adapter, ids: list[int]) -> int:
    return await _each(on, sql.REPLAY, ids)


async def resolve(on: Adapter, ids: list[int]) -> int:
    return await _each(on, sql.RESOLVE, ids)


async def clean(on: Adapter, age: float, limit: int) -> int:
    """Delete rows that are older than `age` seconds, up to `limit` of each table. Return how many were deleted.

    Rows about effects are an exception: they are kept for twice `age`. If an event arrives again after its key was
    deleted, it has a second effect. With the row about the first effect, the inbox report can show this.
    """
    ages = [(sql.CLEAN_KEYS, age), (sql.CLEAN_EVENTS, age), (sql.CLEAN_COPIES, age), (sql.CLEAN_EFFECTS, 2 * age)]
    return sum([len(await _fetch(on, pair, age=seconds, limit=limit)) for pair, seconds in ages])


async def days(on: Adapter, count: int) -> dict[str, Day]:
    """Return the last `count` days, today included, by their date. Days without any webhook are missing."""
    rows = await _fetch(on, sql.DAYS, days=count)
    listed = [Day(**dict(zip(Day.__struct_fields__, (day, *map(int, counts)), strict=True))) for day, *counts in rows]
    return {day.day: day for day in listed}


async def backlog(on: Adapter) -> tuple[str, int, float, int]:
    """Return four values: today's date by the database's clock, how many events wait, for how many seconds the oldest
    has been due, and how many are dead."""
    [(today, waiting, overdue, dead_ones)] = await _fetch(on, sql.BACKLOG)
    return today, waiting, max(0.0, float(overdue or 0.0)), dead_ones


async def _each(on: Adapter, statement: Pair, ids: list[int]) -> int:
    return sum([len(await _fetch(on, statement, id=number)) for number in sorted(ids)])


def _filled(kind: type[T], row: Sequence[Any]) -> T:
    """Make an `Event` or a `DeadEvent` from a row. The columns are in the order of the fields."""
    values = dict(zip(kind.__struct_fields__, row, strict=True))
    values["body"] = bytes(values["body"])
    values["headers"] = msgspec.json.decode(values["headers"] or "{}", type=dict[str, str])
    for name in {"accepted_at", "died_at"} & values.keys():
        values[name] = clock.from_micros(values[name])
    return kind(**values)
