"""Every statement finds its rows by an index: nothing that grows is ever scanned."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator

import pytest

from hookline.store.sql import load
from hookline.store.sqlite.dead import _CONDITIONS
from hookline.store.sqlite.migrate import scripts, statements

SQL = load("sqlite")
SMALL = {"sqlite_sequence", "sqlite_schema", "organization", "json_each", "CONSTANT"}
FILTERS = ["1", *_CONDITIONS.values(), " AND ".join(_CONDITIONS.values())]
# These sort, or group, what an index has already narrowed down to one message, one lane or one filter.
SORTS = {"dead_stats", "deliveries", "attempts", "lane_view", "counts_waiting", "sweep_failing_dead"}


@pytest.fixture(scope="module")
def empty() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute(SQL["migration_table"])
    for script in scripts().values():
        for statement in statements(script):
            connection.execute(statement)
    yield connection
    connection.close()


def texts(name: str) -> list[str]:
    if "{where}" not in SQL[name]:
        return [SQL[name]]
    return [
        SQL[name].replace("{where}", f"{where} AND {rest}")
        for where in FILTERS
        for rest in ("1", "l.resolved_at IS NULL")
    ]


def plan(connection: sqlite3.Connection, text: str) -> list[str]:
    bare = re.sub(r"--.*", "", text)
    names = set(re.findall(r":([a-z_]+)", bare))
    values: object = dict.fromkeys(names, "[1]") if names else ["[1]"] * bare.count("?")
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]  # type: ignore[call-overload]


def scanned(step: str) -> str | None:
    found = re.match(r"SCAN (\w+)", step)
    return found[1] if found and found[1] not in SMALL else None


@pytest.mark.parametrize("name", sorted(SQL))
def test_a_statement_scans_nothing_that_grows(empty: sqlite3.Connection, name: str) -> None:
    for text in texts(name):
        steps = plan(empty, text)
        own = {step.split()[1] for step in steps if step.startswith(("CO-ROUTINE", "MATERIALIZE"))}
        own |= {"w", "t"} if "WITH RECURSIVE" in text else set()
        assert [step for step in steps if scanned(step) not in {None, *own}] == []
        assert name in SORTS or not [step for step in steps if "TEMP B-TREE" in step], steps


def test_the_claim_reads_the_due_index_in_its_order(empty: sqlite3.Connection) -> None:
    assert plan(empty, SQL["claim_candidates"])[0] == "SEARCH d USING INDEX delivery_due (endpoint_no=?)"
    assert plan(empty, SQL["claim_tokens"]) == ["SEARCH wake USING INDEX wake_at (at<?)"]


def test_a_scan_would_be_noticed(empty: sqlite3.Connection) -> None:
    (step,) = plan(empty, "SELECT * FROM delivery WHERE attempts > 3")
    assert scanned(step) == "delivery"
