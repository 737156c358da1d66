"""What is done with the database, without doing it: each plan yields statements and gets their rows. `run` and `run_async`
carry it out on a connection, so that both kinds do the same.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from hookline import clock
from hookline.receive.inbox import statements as sql
from hookline.receive.inbox.adapters.base import AsyncConnection, Connection
from hookline.receive.inbox.model import Claim, Day, DeadEvent, Event
from hookline.receive.inbox.statement import Engine, Pair, Rows, Statement
from hookline.receive.inbox.trouble import explained

T = TypeVar("T")

DIED = "the worker ended before the handler did"


class Step(NamedTuple):
    statement: Statement
    values: dict[str, Any]


Plan = Generator[Step, Rows, T]


def run(on: Connection, plan: Plan[T]) -> T:
    try:
        step = next(plan)
        while True:
            with explained:
                rows = on.fetch(step.statement, step.values)
            step = plan.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_async(on: AsyncConnection, plan: Plan[T]) -> T:
    try:
        step = next(plan)
        while True:
            with explained:
                rows = await on.fetch(step.statement, step.values)
            step = plan.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


# ── once and accept ───────────────────────────────────────────────────────────────────────────────────────────────


def record(engine: Engine, now: datetime, scope: str, key: str) -> Plan[bool]:
    """True if nobody has recorded this key before."""
    values = {"scope": scope, "key": key, "flow": "once", "now": clock.to_micros(now)}
    if engine == "postgres":
        [(fresh,)] = yield Step(sql.RECORD_POSTGRES, values)
        return bool(fresh)
    first = bool((yield Step(sql.RECORD_KEY_SQLITE, values)))
    yield Step(sql.EFFECT_SQLITE if first else sql.COPY_SQLITE, values)
    return first


def accept(
    engine: Engine, now: datetime, scope: str, key: str, event_type: str | None, body: bytes, headers: dict[str, str]
) -> Plan[bool]:
    """True if it is new."""
    values = {
        "scope": scope,
        "key": key,
        "event_type": event_type,
        "body": body,
        "headers": msgspec.json.encode(headers).decode() if headers else None,
        "flow": "worker",
        "now": clock.to_micros(now),
    }
    if engine == "postgres":
        [(fresh,)] = yield Step(sql.ACCEPT_POSTGRES, values)
        return bool(fresh)
    new = bool((yield Step(sql.ACCEPT_SQLITE, values)))
    if not new:
        yield Step(sql.COPY_SQLITE, values)
    return new


# ── the worker ────────────────────────────────────────────────────────────────────────────────────────────────────


def claim(engine: Engine, now: datetime, token: str, lease: float) -> Plan[Claim | None]:
    values = {"token": token, "lease": float(lease), "died": DIED, "now": clock.to_micros(now)}
    rows = yield Step(sql.CLAIM.on(engine), values)
    for number, scope, key, event_type, body, headers, attempts, accepted_at, age in rows:
        event = Event(
            scope=scope,
            key=key,
            event_type=event_type,
            body=bytes(body),
            headers=_headers(headers),
            attempt=attempts,
            accepted_at=clock.from_micros(accepted_at),
        )
        return Claim(id=number, token=token, age=float(age), event=event)
    return None


def finish(engine: Engine, now: datetime, claimed: Claim) -> Plan[bool]:
    """False: somebody else has it now, and nothing was written."""
    values: dict[str, Any] = {"id": claimed.id, "token": claimed.token, "now": clock.to_micros(now)}
    if engine == "postgres":
        return bool((yield Step(sql.FINISH_POSTGRES, values)))
    rows = yield Step(sql.FINISH_SQLITE, values)
    for scope, key in rows:
        yield Step(sql.EFFECT_SQLITE, values | {"flow": "worker", "scope": scope, "key": key})
    return bool(rows)


def is_finished(engine: Engine, claimed: Claim) -> Plan[bool]:
    return bool((yield Step(sql.FINISHED.on(engine), {"id": claimed.id})))


def retry(engine: Engine, now: datetime, claimed: Claim, error: str, delay: float) -> Plan[bool]:
    values = {
        "id": claimed.id,
        "token": claimed.token,
        "error": error,
        "delay": float(delay),
        "now": clock.to_micros(now),
    }
    return bool((yield Step(sql.RETRY.on(engine), values)))


def bury(engine: Engine, now: datetime, claimed: Claim, error: str, reason: str, attempts: int) -> Plan[bool]:
    values = {
        "id": claimed.id,
        "token": claimed.token,
        "error": error,
        "reason": reason,
        "attempts": attempts,
        "now": clock.to_micros(now),
    }
    return bool((yield Step(sql.BURY.on(engine), values)))


# ── dead events, clean-up, report ─────────────────────────────────────────────────────────────────────────────────


def dead(engine: Engine, after: int, limit: int) -> Plan[list[DeadEvent]]:
    rows = yield Step(sql.DEAD.on(engine), {"after": after, "most": limit})
    return [_dead_event(row) for row in rows]


def revive(engine: Engine, now: datetime, ids: list[int]) -> Plan[int]:
    return (yield from _each(sql.REPLAY.on(engine), now, ids))


def resolve(engine: Engine, now: datetime, ids: list[int]) -> Plan[int]:
    return (yield from _each(sql.RESOLVE.on(engine), now, ids))


def clean(engine: Engine, now: datetime, age: float, limit: int) -> Plan[int]:
    """Effects are kept twice as long: one of a key that has been forgotten must show as the second."""
    ages: list[tuple[Pair, float]] = [
        (sql.CLEAN_KEYS, age),
        (sql.CLEAN_EVENTS, age),
        (sql.CLEAN_COPIES, age),
        (sql.CLEAN_EFFECTS, 2 * age),
    ]
    gone = 0
    for pair, seconds in ages:
        rows = yield Step(pair.on(engine), {"age": seconds, "most": limit, "now": clock.to_micros(now)})
        gone += len(rows)
    return gone


def days(engine: Engine, now: datetime, count: int) -> Plan[dict[str, Day]]:
    """By day; those on which nothing happened are missing."""
    rows = yield Step(sql.DAYS.on(engine), {"days": count, "now": clock.to_micros(now)})
    return {
        day: Day(
            day=day,
            first=int(first),
            duplicates_stopped=int(copies),
            effects=int(effects),
            duplicate_effects=int(again),
        )
        for day, first, copies, effects, again in rows
    }


def backlog(engine: Engine, now: datetime) -> Plan[tuple[str, int, float, int]]:
    """Today, by the database's clock; how many wait; for how many seconds the oldest has been due; how many are dead."""
    [(today, waiting, overdue, dead_ones)] = yield Step(sql.BACKLOG.on(engine), {"now": clock.to_micros(now)})
    return today, waiting, max(0.0, float(overdue or 0.0)), dead_ones


def _each(statement: Statement, now: datetime, ids: list[int]) -> Plan[int]:
    changed = 0
    for number in sorted(ids):
        rows = yield Step(statement, {"id": number, "now": clock.to_micros(now)})
        changed += len(rows)
    return changed


def _dead_event(row: tuple[Any, ...]) -> DeadEvent:
    number, scope, key, event_type, body, headers, attempts, reason, error, accepted_at, died_at = row
    return DeadEvent(
        id=number,
        scope=scope,
        key=key,
        event_type=event_type,
        body=bytes(body),
        headers=_headers(headers),
        attempts=attempts,
        reason=reason,
        error=error,
        accepted_at=clock.from_micros(accepted_at),
        died_at=clock.from_micros(died_at),
    )


def _headers(text: str | None) -> dict[str, str]:
    return {} if text is None else msgspec.json.decode(text, type=dict[str, str])
