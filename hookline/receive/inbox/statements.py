"""The SQL statements of the inbox. PostgreSQL uses its own clock. SQLite gets the time as `:now`.

Most statements are written once, with the macros of `_MACROS`. PostgreSQL parameters have explicit casts, because the
drivers infer different types.
"""

from __future__ import annotations

import re

from hookline.outbox.adapters.base import Engine, Statement

# For each macro, the SQL of PostgreSQL and of SQLite. `\1` is the argument. SQLite stores times as microseconds since
# 1970.
_MACROS: list[tuple[str, str, str]] = [
    (r"SECONDS\(([^()]*)\)", r"\1 * interval '1 second'", r"CAST(\1 * 1000000 AS integer)"),
    (r"MICROS\(([^()]*)\)", r"CAST(extract(epoch FROM \1) * 1000000 AS bigint)", r"\1"),
    (
        r"ELAPSED\((\w+|\w+\(\w+\))\)",
        r"CAST(extract(epoch FROM NOW - \1) AS double precision)",
        r"(NOW - \1) / 1000000.0",
    ),
    (r"DATE_OF\((\w+)\)", r"CAST(CAST(\1 AT TIME ZONE 'UTC' AS date) AS text)", r"date(\1 / 1000000, 'unixepoch')"),
    (
        r"MIDNIGHT_BEFORE\(([^()]*)\)",  # the UTC midnight at which the last `\1` days begin, today included
        r"(date_trunc('day', NOW AT TIME ZONE 'UTC') - (\1 - 1) * interval '1 day') AT TIME ZONE 'UTC'",
        r"(NOW / 86400000000 - \1 + 1) * 86400000000",
    ),
    (r"\bNOW\b", "now()", ":now"),
    (r"FOR UPDATE SKIP LOCKED", "FOR UPDATE SKIP LOCKED", ""),
]
# The PostgreSQL types of parameters. All other parameters are text.
_TYPES = {
    "id": "bigint",
    "body": "bytea",
    "after": "bigint",
    "limit": "integer",
    "days": "integer",
    "attempts": "integer",
    "lease": "double precision",
    "delay": "double precision",
    "age": "double precision",
}


class Pair:
    """One statement, for both engines."""

    def __init__(self, text: str) -> None:
        postgres = sqlite = text
        for macro, for_postgres, for_sqlite in _MACROS:
            postgres, sqlite = re.sub(macro, for_postgres, postgres), re.sub(macro, for_sqlite, sqlite)
        postgres = re.sub(r":([a-z_]+)", lambda name: f"CAST({name[0]} AS {_TYPES.get(name[1], 'text')})", postgres)
        self._by_engine: dict[Engine, Statement] = {"postgres": Statement(postgres), "sqlite": Statement(sqlite)}

    def on(self, engine: Engine) -> Statement:
        return self._by_engine[engine]


# ── statements with a second write ───────────────────────────────────────────────────────────────────────────────

# Besides the row of an event or key, the inbox writes a row for each effect and each copy, to count them. SQLite
# cannot write to two tables in one statement, so there EFFECT or COPY runs as a second statement. PostgreSQL writes
# both rows in one statement, to save a round trip.
EFFECT = Pair("INSERT INTO hookline_inbox_effect (flow, scope, key, at) VALUES (:flow, :scope, :key, NOW)")
COPY = Pair("INSERT INTO hookline_inbox_copy (flow, scope, key, at) VALUES (:flow, :scope, :key, NOW)")

_AND_EFFECT = "INSERT INTO hookline_inbox_effect (flow, scope, key, at) SELECT :flow, scope, key, NOW FROM fresh"
_AND_COPY = """
INSERT INTO hookline_inbox_copy (flow, scope, key, at)
SELECT :flow, :scope, :key, NOW WHERE NOT EXISTS (SELECT 1 FROM fresh)
"""


def _with(first: str, effect: str = "SELECT 1", copy: str = "SELECT 1") -> Pair:
    return Pair(f"WITH fresh AS ({first}), effect AS ({effect}), copy AS ({copy}) SELECT 1 FROM fresh")  # noqa: S608  constants


# If another transaction has inserted the same key and has not ended yet, this statement waits for the end of that
# transaction.
_RECORD = """
INSERT INTO hookline_inbox (scope, key, first_at) VALUES (:scope, :key, NOW) ON CONFLICT DO NOTHING RETURNING scope, key
"""
RECORD, RECORD_AND_COUNT = Pair(_RECORD), _with(_RECORD, _AND_EFFECT, _AND_COPY)

_ACCEPT = """
INSERT INTO hookline_inbox_event (scope, key, event_type, body, headers, due_at, accepted_at, budget_from)
VALUES (:scope, :key, :event_type, :body, :headers, NOW, NOW, NOW)
ON CONFLICT (scope, key) DO NOTHING RETURNING scope, key
"""
ACCEPT, ACCEPT_AND_COUNT = Pair(_ACCEPT), _with(_ACCEPT, copy=_AND_COPY)

# The worker runs this statement before the handler, in the same transaction. So the row stays locked while the handler
# runs, and if the handler commits by itself, the state "done" is committed too.
_FINISH = """
UPDATE hookline_inbox_event
SET state = 'done', token = NULL, body = NULL, headers = NULL, error = NULL, finished_at = NOW
WHERE id = :id AND token = :token AND state = 'open'
RETURNING scope, key
"""
FINISH, FINISH_AND_COUNT = Pair(_FINISH), _with(_FINISH, _AND_EFFECT)

# ── statements of the worker ──────────────────────────────────────────────────────────────────────────────────────

# The error `:died` stays in the row only if this worker dies: every other end of the attempt overwrites it. A row that
# the handler of another worker has locked is skipped, even if its claim has expired.
CLAIM = Pair("""
UPDATE hookline_inbox_event
SET token = :token, attempts = attempts + 1, error = :died, due_at = NOW + SECONDS(:lease)
WHERE id = (
    SELECT id FROM hookline_inbox_event WHERE state = 'open' AND due_at <= NOW
    ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, scope, key, event_type, body, headers, attempts, MICROS(accepted_at), ELAPSED(budget_from)
""")

# The worker runs this query after the handler. If the handler rolled back, the state is no longer "done", and the
# worker must roll back what the handler wrote after its own rollback.
FINISHED = Pair("SELECT 1 FROM hookline_inbox_event WHERE id = :id AND state = 'done'")

RETRY = Pair("""
UPDATE hookline_inbox_event SET token = NULL, error = :error, due_at = NOW + SECONDS(:delay)
WHERE id = :id AND token = :token AND state = 'open'
RETURNING 1
""")

BURY = Pair("""
UPDATE hookline_inbox_event
SET state = 'dead', token = NULL, attempts = :attempts, reason = :reason, error = :error, finished_at = NOW
WHERE id = :id AND token = :token AND state = 'open'
RETURNING 1
""")

# ── dead events ───────────────────────────────────────────────────────────────────────────────────────────────────

DEAD = Pair("""
SELECT id, scope, key, event_type, body, headers, attempts, reason, error, MICROS(accepted_at), MICROS(finished_at)
FROM hookline_inbox_event WHERE state = 'dead' AND id > :after ORDER BY id LIMIT :limit
""")

REPLAY = Pair("""
UPDATE hookline_inbox_event
SET state = 'open', attempts = 0, reason = NULL, due_at = NOW, budget_from = NOW, finished_at = NULL
WHERE id = :id AND state = 'dead'
RETURNING 1
""")

RESOLVE = Pair("""
UPDATE hookline_inbox_event SET state = 'resolved', body = NULL, headers = NULL, finished_at = NOW
WHERE id = :id AND state = 'dead'
RETURNING 1
""")

# ── clean-up ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _clean(table: str, id_: str, at: str, only: str = "") -> Pair:
    """Return the statement that deletes rows of `table` whose time in the column `at` is more than `:age` seconds ago.

    `id_` has the columns that identify a row. `only` is a further condition on the rows, which ends in AND.

    With SKIP LOCKED, two clean-ups at the same time do not wait for each other.
    """
    return Pair(f"""
DELETE FROM {table} WHERE ({id_}) IN (
    SELECT {id_} FROM {table} WHERE {only}{at} < NOW - SECONDS(:age)
    ORDER BY {at} LIMIT :limit FOR UPDATE SKIP LOCKED)
RETURNING 1
""")  # noqa: S608


CLEAN_KEYS = _clean("hookline_inbox", "scope, key", "first_at")
CLEAN_EVENTS = _clean("hookline_inbox_event", "id", "finished_at", "state IN ('done', 'resolved') AND ")
CLEAN_COPIES = _clean("hookline_inbox_copy", "id", "at")
CLEAN_EFFECTS = _clean("hookline_inbox_effect", "id", "at")

# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────

# For each UTC day: the date, first requests, copies, effects, and effects that were not the first of their key.
DAYS = Pair("""
WITH since AS (
    SELECT MIDNIGHT_BEFORE(:days) AS at
), happened AS (
    SELECT first_at AS at, 1 AS fresh, 0 AS copy, 0 AS effect, 0 AS again
    FROM hookline_inbox WHERE first_at >= (SELECT at FROM since)
    UNION ALL
    SELECT accepted_at, 1, 0, 0, 0 FROM hookline_inbox_event WHERE accepted_at >= (SELECT at FROM since)
    UNION ALL
    SELECT at, 0, 1, 0, 0 FROM hookline_inbox_copy WHERE at >= (SELECT at FROM since)
    UNION ALL
    SELECT at, 0, 0, 1, CASE WHEN EXISTS (
        SELECT 1 FROM hookline_inbox_effect AS earlier
        WHERE earlier.key = one.key AND earlier.scope = one.scope AND earlier.flow = one.flow AND earlier.id < one.id)
        THEN 1 ELSE 0 END
    FROM hookline_inbox_effect AS one WHERE at >= (SELECT at FROM since)
)
SELECT DATE_OF(at), sum(fresh), sum(copy), sum(effect), sum(again) FROM happened GROUP BY 1
""")

# Today's date, how many events wait, for how long the oldest has been due, and how many are dead. An event that is due
# later waits for a retry, or for the end of its claim.
BACKLOG = Pair("""
SELECT DATE_OF(NOW),
       (SELECT count(*) FROM hookline_inbox_event WHERE state = 'open'),
       (SELECT ELAPSED(min(due_at)) FROM hookline_inbox_event WHERE state = 'open'),
       (SELECT count(*) FROM hookline_inbox_event WHERE state = 'dead')
""")
