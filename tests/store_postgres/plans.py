"""EXPLAIN of a named statement, on the connections that run it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hookline.store.postgres import PostgresStore

Plan = dict[str, Any]


async def explain(store: PostgresStore, name: str, *args: object, calm: bool = False) -> Plan:
    """Run it for real, and undo it."""
    pool = store._db.calm() if calm else store._db.hot()
    async with pool as connection:
        undo = connection.transaction()
        await undo.start()
        try:
            text = await connection.fetchval("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + store._db.sql[name], *args)
        finally:
            await undo.rollback()
    plan: Plan = json.loads(text)[0]["Plan"]
    return plan


def nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def scanned(plan: Plan) -> set[str]:
    """Tables that were read from end to end, and had something in them."""
    return {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan" and _seen(node)}


def _seen(node: Plan) -> float:
    seen: float = node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
    return seen


def indexes(plan: Plan) -> set[str]:
    return {node["Index Name"] for node in nodes(plan) if "Index Name" in node}


def buffers(plan: Plan) -> int:
    """Pages that were looked at."""
    found: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return found
