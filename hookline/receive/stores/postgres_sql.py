"""The SQL of the PostgreSQL stores, for a table of any name. Placeholders are PostgreSQL's own."""

from __future__ import annotations

from hookline.errors import InvalidInput

TABLE = "hookline_idempotency"
_LONGEST = 48  # maximum bytes of a name; PostgreSQL cuts names at 63 bytes, and the name of the index is longer

# Makes concurrent set-ups run one after the other: otherwise CREATE ... IF NOT EXISTS may fail.
_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(1214540, 2)"

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    key         bytea PRIMARY KEY,
    fingerprint bytea NOT NULL,
    token       bytea NOT NULL,
    runs        integer NOT NULL,
    lease_until timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL, -- a row is valid until this time
    response    bytea
);
CREATE INDEX IF NOT EXISTS {index} ON {table} (expires_at);
"""

# Takes the key for a request. If an earlier request holds or has used the key, the statement writes nothing and returns
# the state of that request. If the statement returns no row, another request took or released the key between the
# snapshot and the INSERT. Then the statement must run again. $1 key, $2 fingerprint, $3 token, $4 seconds of the lease,
# $5 seconds for which the row is kept after the lease.
_BEGIN = """
WITH settled AS (
    SELECT
        CASE WHEN fingerprint <> $2::bytea THEN 'mismatch' WHEN response IS NULL THEN 'in_progress' ELSE 'replay' END AS verdict,
        CASE WHEN fingerprint = $2::bytea THEN response END AS response,
        extract(epoch FROM lease_until - now())::float8 AS retry_after
    FROM {table}
    WHERE key = $1::bytea AND expires_at > now()
        AND (fingerprint <> $2::bytea OR response IS NOT NULL OR (lease_until > now() AND token <> $3::bytea))
), taken AS (
    INSERT INTO {table} AS old (key, fingerprint, token, runs, lease_until, expires_at)
    SELECT $1::bytea, $2::bytea, $3::bytea, 1,
        now() + make_interval(secs => $4::float8), now() + make_interval(secs => $4::float8 + $5::float8)
    WHERE NOT EXISTS (SELECT FROM settled)
    ON CONFLICT (key) DO UPDATE SET
        fingerprint = excluded.fingerprint,
        token = excluded.token,
        runs = CASE WHEN old.expires_at <= now() THEN 1 ELSE old.runs + (old.token <> excluded.token)::integer END,
        lease_until = excluded.lease_until,
        expires_at = excluded.expires_at,
        response = NULL
    WHERE old.expires_at <= now() OR (
        old.fingerprint = excluded.fingerprint AND old.response IS NULL
        AND (old.lease_until <= now() OR old.token = excluded.token)
    )
    RETURNING runs
)
SELECT 'fresh'::text, runs, NULL::bytea, NULL::float8 FROM taken
UNION ALL
SELECT verdict, NULL, response, retry_after FROM settled
"""

# $1 key, $2 token, $3 seconds of the lease, $4 seconds for which the row is kept after the lease.
_RENEW = """
UPDATE {table} SET lease_until = now() + make_interval(secs => $3::float8),
    expires_at = now() + make_interval(secs => $3::float8 + $4::float8)
WHERE key = $1::bytea AND token = $2::bytea AND response IS NULL
RETURNING true
"""

# $1 key, $2 token, $3 response, $4 seconds for which the response is kept.
_FINISH = """
UPDATE {table} SET response = $3::bytea, expires_at = now() + make_interval(secs => $4::float8)
WHERE key = $1::bytea AND token = $2::bytea
RETURNING true
"""

_RELEASE = "DELETE FROM {table} WHERE key = $1::bytea AND token = $2::bytea AND response IS NULL"

# The statement skips locked rows: another request is about to take over the keys of these rows.
_CLEAN = """
WITH gone AS (
    DELETE FROM {table} WHERE key = ANY (ARRAY(
        SELECT key FROM {table} WHERE expires_at <= now() ORDER BY expires_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
    ))
    RETURNING 1
)
SELECT count(*) FROM gone
"""


# Returns NULL if there is no table of this name. $1 name of the table.
FIND = "SELECT pg_catalog.to_regclass($1::text)::text"


class Statements:
    """All statements, for one table."""

    def __init__(self, table: str, schema: str | None) -> None:
        self.table = _qualified(table, schema)
        self.create = f"{_LOCK};\n{table_sql(table, schema)}"
        self.begin, self.renew, self.finish, self.release, self.clean = (
            statement.replace("{table}", self.table) for statement in (_BEGIN, _RENEW, _FINISH, _RELEASE, _CLEAN)
        )


def table_sql(table: str = TABLE, schema: str | None = None) -> str:
    """Return the SQL that creates the table, for your own migrations. It is safe to run it again."""
    index = _quoted(f"{table}_expires_at")
    return _CREATE.replace("{table}", _qualified(table, schema)).replace("{index}", index).lstrip()


def _qualified(table: str, schema: str | None) -> str:
    names = [name for name in (schema, table) if name is not None]
    for name in names:
        _check(name)
    return ".".join(map(_quoted, names))


def _check(name: str) -> None:
    if not name or "\0" in name or len(name.encode("utf-8", "replace")) > _LONGEST:
        raise InvalidInput(f"the name of a table or schema must have 1 to {_LONGEST} bytes, without NUL: {name[:60]!r}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
