"""Every statement finds its rows by an index. No statement scans a table that grows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator

import pytest

from hookline.store.sql import load
from hookline.store.sqlite.database import chosen
from hookline.store.sqlite.migrate import scripts, statements

SQL = load("sqlite")
SMALL = {"sqlite_sequence", "sqlite_schema", "organization", "json_each", "CONSTANT", "alert_pending", "older_secret"}
# These statements read all lanes. The sampler limits them to 2% of its time, and the overview page needs all lanes.
COUNTS = {"depths_circuits", "unhealthy_lane_numbers"}
# These statements sort or group rows that an index has already limited to one message, one lane or one filter.
SORTS = {
    "dead_stats",
    "dead_stats_applications",
    "dead_attempts",
    "deliveries",
    "deliveries_page",
    "attempts",
    "lane_views",
    "counts",
    "sweep_failing_dead",
    "alert_unhealthy_endpoints",
    "alerts_firing",
    "depths_alerts",
    "depths_circuits",
    "depths_dead",
    "endpoint_activity",
}


@pytest.fixture(scope="module")
def empty() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute(SQL["migration_table"])
    for script in scripts().values():
        for statement in statements(script):
            connection.execute(statement)
    yield connection
    connection.close()


# These statements sort a limited number of rows too, and exist for both directions.
SORTS |= {f"{name}{way}" for name in ("message_attempts", "attempted_messages") for way in ("", "_back")}
SORTS |= {"operational_attempts"}
# Statements of pages sort few rows: some of the newest rows, one page, one tenant's lanes, or the points of a chart.
SORTS |= {"dead_summary", "search_by_event_id", "search_states", "lane_page", "lanes_of_org"}
SORTS |= {"unhealthy_lanes_dead", "unhealthy_lane_numbers"}
SORTS |= {f"search{what}{way}" for what in ("", "_dead", "_open") for way in ("", "_back")}


def texts(name: str) -> list[str]:
    names = re.findall(r"-- if :([a-z_]+)$", SQL[name], re.MULTILINE)
    some = [dict.fromkeys(names), dict.fromkeys(names, 1), *(dict.fromkeys(names) | {name: 1} for name in names)]
    return [chosen(SQL[name], given) for given in some]


def plan(connection: sqlite3.Connection, text: str) -> list[str]:
    bare = re.sub(r"--.*", "", text)
    names = set(re.findall(r":([a-z_]+)", bare))
    marks = len(set(re.findall(r"\?\d", bare))) or bare.count("?")  # a numbered parameter may occur twice
    values: object = dict.fromkeys(names, "[1]") if names else ["[1]"] * marks
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]  # type: ignore[call-overload]


def scanned(step: str) -> str | None:
    found = re.match(r"SCAN (\w+)\b(?! VIRTUAL TABLE)", step)  # json_each reads only the given values
    return found[1] if found and found[1] not in SMALL else None


@pytest.mark.parametrize("name", sorted(SQL))
def test_a_statement_scans_no_table_that_grows(empty: sqlite3.Connection, name: str) -> None:
    for text in texts(name):
        steps = plan(empty, text)
        own = {step.split()[1] for step in steps if step.startswith(("CO-ROUTINE", "MATERIALIZE"))}
        own |= {"w", "t"} if "WITH RECURSIVE" in text else set()
        own |= {"lane", "n"} if name in COUNTS else set()
        assert [step for step in steps if scanned(step) not in {None, *own}] == []
        by_ids = any(re.search(r"SEARCH \w+ USING INTEGER PRIMARY KEY \(rowid=\?\)", step) for step in steps[:1])
        # The few rows that a caller asked for by id may be sorted.
        assert name in SORTS or by_ids or not [step for step in steps if "TEMP B-TREE" in step], steps


def test_the_claim_reads_the_due_index_in_its_order(empty: sqlite3.Connection) -> None:
    assert plan(empty, SQL["claim_candidates"])[0] == "SEARCH d USING INDEX delivery_due (endpoint_no=?)"
    assert plan(empty, SQL["claim_tokens"]) == ["SEARCH wake USING INDEX wake_at (at<?)"]
    assert plan(empty, SQL["claim_app"]) == ["SEARCH wake USING COVERING INDEX wake_app (app_no<?)"]
    assert plan(empty, SQL["claim_turns"]) == ["SEARCH wake USING INDEX wake_app (app_no=? AND at<?)"]


def test_endpoints_with_dead_letters_are_found_without_reading_every_dead_letter(empty: sqlite3.Connection) -> None:
    onward = "SEARCH l USING INDEX dead_letter_unresolved ((app_no,endpoint_no)>(?,?))"
    assert onward in plan(empty, SQL["unhealthy_lanes_dead"])


def test_the_oldest_unresolved_dead_letter_is_found_without_reading_the_resolved_ones(
    empty: sqlite3.Connection,
) -> None:
    steps = [step for step in plan(empty, SQL["unhealthy_lane_details"]) if "dead_letter" in step]
    assert len(steps) == 2
    assert all(" INDEX dead_letter_unresolved (app_no=? AND endpoint_no=?)" in step for step in steps), steps


def test_this_check_detects_a_scan(empty: sqlite3.Connection) -> None:
    (step,) = plan(empty, "SELECT * FROM delivery WHERE attempts > 3")
    assert scanned(step) == "delivery"


@pytest.mark.parametrize("name", ["endpoint_attempts", "endpoint_attempts_back", "endpoint_attempts_end"])
def test_failed_attempts_are_listed_without_reading_successful_ones(empty: sqlite3.Connection, name: str) -> None:
    steps = plan(empty, chosen(SQL[name], {"is_failed": True, "is_delivered": None}))
    assert [step for step in steps if re.match(r"SEARCH t USING (COVERING )?INDEX attempt_failed ", step)]


def test_the_end_of_a_listing_step_is_found_in_the_index_alone(empty: sqlite3.Connection) -> None:
    for name in ("messages_end", "messages_end_back", "endpoint_attempts_end", "endpoint_attempts_end_back"):
        (step,) = plan(empty, chosen(SQL[name], {"is_failed": None, "is_delivered": None}))
        assert "USING COVERING INDEX" in step, name


def test_ordering_costs_nothing_without_keys_and_one_index_seek_with_a_key(empty: sqlite3.Connection) -> None:
    for name in (
        "claim_candidates",
        "claim_take",
        "claim_consume",
        "record_fence",
        "record_delivered",
        "record_closed",
    ):
        assert not [
            step for step in plan(empty, SQL[name]) if "delivery_queued" in step or "delivery_active" in step
        ], name
    steps = "\n".join(plan(empty, SQL["promote"]))
    for index in (
        "delivery_queued (endpoint_no=? AND ordering_key=?)",
        "delivery_active (endpoint_no=? AND ordering_key=?)",
        "dead_letter_blocks (endpoint_no=? AND ordering_key=? AND message_seq<?)",
    ):
        assert index in steps


def test_the_audit_seeks_from_queue_to_queue(empty: sqlite3.Connection) -> None:
    """The seek must use both columns of the index. With the first column alone, SQLite would read a whole lane for each
    queue."""
    steps = "\n".join(plan(empty, SQL["queues"]))
    assert "SEARCH d USING INDEX delivery_queued (endpoint_no=? AND ordering_key>?)" in steps
    assert "SCAN delivery" not in steps
