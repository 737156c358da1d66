-- Statements that many plans use.

-- name: now
SELECT now() AS now
