"""Run shared plans on SQLite. See `store/plans/plan.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from hookline.store.plans.plan import Batch, Bulk, Plan, Step
from hookline.store.rows import Row
from hookline.store.sqlite.clock import to_micros
from hookline.store.sqlite.transaction import Tx

T = TypeVar("T")

_OPTIONAL = re.compile(r"^.*-- if :([a-z_]+)$", re.MULTILINE)
_MICROSECOND = timedelta(microseconds=1)
# PostgreSQL notifies sleeping workers inside the transaction; here an event is set after the commit
_ANNOUNCE = "announce"


def run(tx: Tx, plan: Plan[T]) -> T:
    """Run every step of the plan in this transaction and return its result."""
    try:
        step = next(plan)
        while True:
            step = plan.send(_rows(tx, step))
    except StopIteration as end:
        result: T = end.value
        return result


def _rows(tx: Tx, step: Step | Batch) -> list[Row]:
    if step.name == _ANNOUNCE:
        tx.announced = True
        return []
    if step.name in tx.context.catalogue_writes:
        tx.forget_plans()
    if isinstance(step, Bulk):
        return [row for values in step.values for row in _rows(tx, Step(step.name, **values))]
    if isinstance(step, Batch):
        tx.many(step.name, [_bound(tx, values) for values in step.values])
        return []
    text = chosen(tx.sql[step.name], step.values)
    found: list[Any] = tx.conn.execute(text, _bound(tx, step.values)).fetchall()
    return found


def chosen(text: str, values: Mapping[str, Any]) -> str:
    """Remove the lines that end in `-- if :name` whose value is None. SQLite plans a statement before it knows the
    values, and would use no index for a condition that may not apply."""
    if "-- if :" not in text:
        return text
    return _OPTIONAL.sub(lambda line: "" if values[line[1]] is None else line[0], text)


def _bound(tx: Tx, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"now": tx.now} | {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return to_micros(value)
        case timedelta():
            return value // _MICROSECOND
        case list() | tuple():
            return msgspec.json.encode(value).decode()
        case _:
            return value
