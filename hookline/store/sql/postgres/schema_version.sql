
-- name: version
SELECT coalesce(max(number), 0) FROM hookline.migration

-- name: migration_exists
SELECT to_regclass('hookline.migration') IS NOT NULL

-- name: encoding
SELECT current_setting('server_encoding')

-- name: migration_lock
SET lock_timeout = 0;
SELECT pg_advisory_lock(1214540, 1)

-- name: migration_blockers
SELECT coalesce(c.relnamespace::regnamespace || '.' || c.relname, l.locktype) AS wanted, b.pid,
       a.application_name AS application, a.usename AS role
FROM pg_locks l CROSS JOIN LATERAL unnest(pg_blocking_pids(l.pid)) AS b (pid)
LEFT JOIN pg_class c ON c.oid = l.relation
LEFT JOIN pg_stat_activity a ON a.pid = b.pid
WHERE l.pid = $1 AND NOT l.granted
ORDER BY a.xact_start, b.pid

-- name: migration_owner
SELECT quote_ident(current_user) AS me, quote_ident(current_database()) AS database,
       (SELECT quote_ident(pg_get_userbyid(nspowner)) FROM pg_namespace WHERE nspname = 'hookline') AS owner

-- name: migration_add
INSERT INTO hookline.migration (number, applied_at) VALUES ($1, now())

-- name: migration_table
CREATE SCHEMA IF NOT EXISTS hookline;
CREATE TABLE IF NOT EXISTS hookline.migration (number integer PRIMARY KEY, applied_at timestamptz NOT NULL)
