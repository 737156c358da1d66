"""Statistics on SQLite read only rows between the first and last id of the time window."""

from __future__ import annotations

import sqlite3

import pytest

from tests.store_sqlite.test_plans import SQL, empty, plan

__all__ = ["empty"]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("stats_messages", "SEARCH m USING COVERING INDEX message_app (app_no=? AND id>? AND id<?)"),
        ("stats_attempts", "SEARCH t USING COVERING INDEX attempt_endpoint (endpoint_no=? AND id>? AND id<?)"),
        ("stats_failed", "SEARCH t USING INDEX attempt_failed (endpoint_no=? AND id>? AND id<?)"),
        ("stats_dead", "SEARCH l USING INDEX dead_letter_endpoint (endpoint_no=? AND died_at>? AND died_at<?)"),
    ],
)
def test_history_outside_the_window_is_not_read(empty: sqlite3.Connection, name: str, step: str) -> None:
    assert step in plan(empty, SQL[name])
