-- What many plans ask for.

-- name: now
SELECT now() AS now
