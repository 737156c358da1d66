-- Migrations.

-- name: version
SELECT coalesce(max(number), 0) FROM migration;

-- name: migration_exists
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migration';

-- name: migration_table
CREATE TABLE IF NOT EXISTS migration (number integer PRIMARY KEY, applied_at integer NOT NULL) STRICT;

-- name: migration_add
INSERT INTO migration (number, applied_at) VALUES (?, ?);
