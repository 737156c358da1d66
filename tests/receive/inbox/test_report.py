"""The report counts duplicate effects. The number is zero, unless something went wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from hookline.outbox.adapters.base import Statement
from hookline.receive import inbox
from hookline.receive.inbox import InvalidInput
from hookline.receive.inbox.statements import CLAIM
from tests.receive.inbox.shop import Shop, pay

DAY = 86_400


def _at(shop: Shop, days_ago: float) -> str:
    """Return an SQL expression for the time `days_ago` days ago."""
    if shop.engine == "postgres":
        return f"now() - interval '{days_ago * DAY} seconds'"
    return f"(CAST(strftime('%s', 'now') AS integer) - {days_ago * DAY:.0f}) * 1000000"


def _once(shop: Shop, *keys: str) -> None:
    with closing(shop.connect()) as conn:
        for key in keys:
            with inbox.once(conn, key):
                pass
        conn.commit()


def test_a_duplicate_effect_is_shown(any_shop: Shop) -> None:
    _once(any_shop, "a", "a", "b")
    any_shop.accept("a")
    with closing(any_shop.connect()) as conn:
        inbox.InboxWorker(any_shop.connect, {"*": pay}).drain()
        assert inbox.report(conn).duplicate_effects == 0
    for flow, key, scope in (("once", "a", ""), ("once", "a", ""), ("worker", "a", ""), ("once", "b", "another")):
        any_shop.run(f"INSERT INTO hookline_inbox_effect (flow, scope, key) VALUES ('{flow}', '{scope}', '{key}')")
    report = any_shop.report()
    assert (report.effects, report.duplicate_effects) == (7, 3)
    assert "hookline_inbox_duplicate_effects 3\n" in report.as_prometheus()


def test_a_second_effect_after_its_key_was_deleted_is_a_duplicate(any_shop: Shop) -> None:
    _once(any_shop, "k")
    for table, at in (("hookline_inbox", "first_at"), ("hookline_inbox_effect", "at")):
        any_shop.run(f"UPDATE {table} SET {at} = {_at(any_shop, 31)}")
    with closing(any_shop.connect()) as conn:
        assert inbox.clean(conn) == 1
        conn.commit()
    _once(any_shop, "k")
    assert any_shop.report().duplicate_effects == 1


def test_lost_uniqueness_is_shown(any_shop: Shop) -> None:
    """A broken index or a restored backup can lose the key while its effect remains."""
    _once(any_shop, "k")
    any_shop.run("DELETE FROM hookline_inbox")
    _once(any_shop, "k")
    assert any_shop.report().duplicate_effects == 1


def test_each_day_has_its_own_numbers(any_shop: Shop) -> None:
    _once(any_shop, "a", "b", "c", "a")
    any_shop.run(
        f"UPDATE hookline_inbox SET first_at = {_at(any_shop, 2)} WHERE key IN ('a', 'b')",
        f"UPDATE hookline_inbox_effect SET at = {_at(any_shop, 2)} WHERE key IN ('a', 'b')",
        f"UPDATE hookline_inbox SET first_at = {_at(any_shop, 9)} WHERE key = 'c'",
        f"INSERT INTO hookline_inbox_effect (flow, scope, key, at) VALUES ('once', '', 'a', {_at(any_shop, 1)})",
    )
    days = any_shop.report().days
    assert len(days) == 7
    assert [day.first for day in days] == [0, 0, 0, 0, 2, 0, 0]
    assert [day.duplicates_stopped for day in days] == [0, 0, 0, 0, 0, 0, 1]
    assert [day.effects for day in days] == [0, 0, 0, 0, 2, 1, 1]
    assert [day.duplicate_effects for day in days] == [0, 0, 0, 0, 0, 1, 0]
    assert [day.day for day in days] == sorted({day.day for day in days})


def test_overdue_and_dead_events_are_in_the_report(any_shop: Shop) -> None:
    any_shop.accept("a", "b", "c")
    any_shop.run(
        f"UPDATE hookline_inbox_event SET due_at = {_at(any_shop, 1)} WHERE key = 'a'",
        f"UPDATE hookline_inbox_event SET due_at = {_at(any_shop, -1)} WHERE key = 'b'",
        "UPDATE hookline_inbox_event SET state = 'dead' WHERE key = 'c'",
    )
    report = any_shop.report()
    assert (report.waiting, report.dead) == (2, 1)
    assert DAY <= report.overdue < DAY + 600
    any_shop.run("DELETE FROM hookline_inbox_event WHERE key = 'a'")
    assert any_shop.report().overdue == 0.0  # An event that waits for its retry is not overdue.


def test_the_report_in_prometheus_format(any_shop: Shop) -> None:
    _once(any_shop, *(f"k{number}" for number in range(3)), "k1")
    lines = any_shop.report().as_prometheus().splitlines()
    values = dict(line.split(" ") for line in lines if not line.startswith("#"))
    assert {name: float(value) for name, value in values.items()} == {
        "hookline_inbox_arrivals": 4,
        "hookline_inbox_first": 3,
        "hookline_inbox_duplicates_stopped": 1,
        "hookline_inbox_effects": 3,
        "hookline_inbox_duplicate_effects": 0,
        "hookline_inbox_waiting": 0,
        "hookline_inbox_overdue_seconds": 0,
        "hookline_inbox_dead": 0,
    }
    assert [line.split(" ")[2] for line in lines if line.startswith("# TYPE")] == list(values)


@pytest.mark.parametrize("days", [0, -1, 367, 1.5, "7", True, None])
def test_a_wrong_number_of_days_is_refused(any_shop: Shop, days: Any) -> None:
    with closing(any_shop.connect()) as conn, pytest.raises(InvalidInput, match="days"):
        inbox.report(conn, days)


# ── clean ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_old_rows_are_deleted_in_batches_and_others_are_kept(any_shop: Shop) -> None:
    _once(any_shop, *(f"k{number}" for number in range(5)), "k0")
    any_shop.accept("done", "open", "dead", "resolved")
    any_shop.run(
        f"UPDATE hookline_inbox SET first_at = {_at(any_shop, 31)} WHERE key <> 'k4'",
        f"UPDATE hookline_inbox_copy SET at = {_at(any_shop, 31)}",
        f"UPDATE hookline_inbox_effect SET at = {_at(any_shop, 61)} WHERE key IN ('k0', 'k1')",
        f"UPDATE hookline_inbox_effect SET at = {_at(any_shop, 59)} WHERE key IN ('k2', 'k3')",
        f"UPDATE hookline_inbox_event SET state = key, accepted_at = {_at(any_shop, 40)}, finished_at = {_at(any_shop, 31)}",
    )
    with closing(any_shop.connect()) as conn:
        steps = []
        while gone := inbox.clean(conn, limit=3):
            steps.append(gone)
            conn.commit()
        conn.rollback()
    assert steps == [3 + 2 + 1 + 2, 1]
    assert any_shop.recorded() == [("", "k4")]
    assert set(any_shop.states()) == {"open", "dead"}
    assert any_shop.rows("SELECT count(*) FROM hookline_inbox_copy") == [(0,)]
    assert any_shop.rows("SELECT key FROM hookline_inbox_effect ORDER BY key") == [("k2",), ("k3",), ("k4",)]


def test_clean_does_not_commit_and_accepts_any_age(any_shop: Shop) -> None:
    _once(any_shop, "k")
    any_shop.run(f"UPDATE hookline_inbox SET first_at = {_at(any_shop, 1)}")
    with closing(any_shop.connect()) as conn:
        assert inbox.clean(conn, older_than=timedelta(days=2)) == 0
        assert inbox.clean(conn, older_than=3600) == 1
        conn.rollback()
    assert any_shop.recorded() == [("", "k")]


@pytest.mark.parametrize("wrong", [{"older_than": -1}, {"older_than": float("nan")}, {"limit": 0}, {"limit": True}])
def test_wrong_bounds_are_refused(any_shop: Shop, wrong: dict[str, Any]) -> None:
    with closing(any_shop.connect()) as conn, pytest.raises(InvalidInput):
        inbox.clean(conn, **wrong)


@pytest.mark.parametrize("ids", [-1, [1, "2"], [True], [1 << 63]])
def test_wrong_ids_are_refused(any_shop: Shop, ids: Any) -> None:
    with closing(any_shop.connect()) as conn:
        for call in (inbox.replay, inbox.resolve):
            with pytest.raises(InvalidInput, match="id"):
                call(conn, ids)


# ── the tables ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ["postgres", "sqlite"])
def test_the_sql_is_printed_for_a_migration_tool(engine: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "hookline.receive.inbox", engine], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout == inbox.sql(engine)  # type: ignore[arg-type]
    assert answer.stderr == ""


def test_another_engine_is_refused() -> None:
    with pytest.raises(InvalidInput, match="mysql"):
        inbox.sql("mysql")  # type: ignore[arg-type]
    answer = subprocess.run(
        [sys.executable, "-m", "hookline.receive.inbox", "mysql"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (2, "")


def test_importing_the_inbox_loads_few_modules() -> None:
    code = "import sys; import hookline.receive.inbox; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    heavy = {"asyncio", "sqlite3", "ssl", "cryptography", "psycopg", "psycopg2", "asyncpg", "sqlalchemy", "django"}
    assert not set(loaded.stdout.split()) & heavy


def test_the_claim_finds_its_event_by_the_index_of_what_is_due(any_shop: Shop) -> None:
    many = {
        "postgres": "SELECT '', n::text, 'done', now(), now(), now() FROM generate_series(1, 5000) AS n",
        "sqlite": "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 5000)"
        " SELECT '', n, 'done', 1, 1, 1 FROM s",
    }[any_shop.engine]
    columns = "scope, key, state, due_at, accepted_at, budget_from"
    any_shop.run(f"INSERT INTO hookline_inbox_event ({columns}) {many}", "ANALYZE")
    any_shop.accept("k")
    assert "hookline_inbox_event_due" in _plan(any_shop, CLAIM.on(any_shop.engine))  # type: ignore[arg-type]


def _plan(shop: Shop, claim: Statement) -> str:
    values = {"token": "t", "lease": 1.0, "died": "", "now": 1 << 60}
    with closing(shop.connect()) as conn:
        if shop.engine == "postgres":
            rows = conn.execute(f"EXPLAIN {claim.percent}", claim.for_percent(values)).fetchall()
        else:
            rows = conn.execute(f"EXPLAIN QUERY PLAN {claim.text}", values).fetchall()
    return "\n".join(str(row[-1]) for row in rows)


def test_concurrent_setups_do_not_conflict(shop_of: Callable[[str], Shop]) -> None:
    any_shop = shop_of("postgres")  # SQLite has one writer at a time.
    any_shop.run("DROP TABLE hookline_inbox, hookline_inbox_event, hookline_inbox_copy, hookline_inbox_effect")
    code = f"import psycopg; from hookline.receive import inbox; conn = psycopg.connect({any_shop.url!r}, autocommit=True); "
    code += "inbox.create_table(conn)"
    children = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(4)]
    assert [(child.wait(60), child.communicate()[1]) for child in children] == [(0, b"")] * 4
    with psycopg.connect(any_shop.url) as conn:
        assert inbox.report(conn).arrivals == 0
