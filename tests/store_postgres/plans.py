"""EXPLAIN of a named statement, on the connections that run it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from hookline.store.postgres import PostgresStore
from hookline.store.sql import values_of

Plan = dict[str, Any]


async def explain(store: PostgresStore, name: str, *args: object, any_scan: bool = False, **values: object) -> Plan:
    """Run a statement under EXPLAIN ANALYZE and roll it back. Pass values by position or by name. Missing values are
    NULL."""
    args = args or tuple(values.get(each) for each in values_of(name))
    pool = store._db.any_scan() if any_scan else store._db.indexed()
    async with pool as connection:
        return await _explained(connection, store._db.sql[name], *args)


async def keep(connection: Any, store: PostgresStore, name: str, *args: object) -> None:
    """Prepare a statement and plan it now. Later executions keep this plan, as on a connection with generic plans."""
    assert await connection.fetchval("SHOW plan_cache_mode") == "force_generic_plan"
    await connection.execute(f"PREPARE {name} AS {store._db.sql[name]}")
    await connection.execute(f"EXPLAIN {_execute(name, args)}")


async def explain_kept(connection: Any, name: str, *args: object) -> Plan:
    """Run a prepared statement with its kept plan under EXPLAIN ANALYZE, and roll it back."""
    return await _explained(connection, _execute(name, args))


def _execute(name: str, args: tuple[object, ...]) -> str:
    return f"EXECUTE {name}({', '.join(map(_literal, args))})"


def _literal(value: Any) -> str:
    """Return a value as an untyped SQL literal, so that PostgreSQL uses the type of the parameter."""
    if value is None:
        return "NULL"
    return f"'{{{', '.join(map(_element, value))}}}'" if isinstance(value, list) else f"'{_element(value)}'"


def _element(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bytes():
            return f'"\\\\x{value.hex()}"'
        case datetime():
            return value.isoformat()
        case tuple():
            return f'"({",".join(map(_field, value))})"'
        case _:
            return str(value)


def _field(value: Any) -> str:
    """Return a value as a field of a composite, which is an element of an array."""
    match value:
        case None:
            return ""
        case bytes():
            return f"\\\\\\\\x{value.hex()}"
        case datetime():
            return value.isoformat().replace(" ", "T")
        case _:
            return f'\\"{value}\\"'


async def _explained(connection: Any, statement: str, *args: object) -> Plan:
    undo = connection.transaction()
    await undo.start()
    try:
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *args)
    finally:
        await undo.rollback()
    plan: Plan = json.loads(text)[0]["Plan"]
    return plan


def nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def scanned(plan: Plan) -> set[str]:
    """Return the tables that the plan read with a sequential scan and that were not empty."""
    return {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan" and _seen(node)}


def _seen(node: Plan) -> float:
    seen: float = node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
    return seen


def indexes(plan: Plan) -> set[str]:
    return {node["Index Name"] for node in nodes(plan) if "Index Name" in node}


def compared(plan: Plan) -> float:
    """Return the number of pairs of rows that the plan compared in a join and that did not match."""
    return sum(node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in nodes(plan))


def buffers(plan: Plan) -> int:
    """Return the number of pages that the plan read."""
    found: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return found
