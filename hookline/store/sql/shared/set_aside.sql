-- Outbox rows that could not become messages: retry or discard them. A retry starts the time budget again.

-- name: set_aside_retry
UPDATE hookline.outbox SET error = NULL, set_aside_at = NULL, created_at = now()
WHERE id = ANY (:ids::bigint[]) AND error IS NOT NULL RETURNING 1

-- name: set_aside_retry_all
UPDATE hookline.outbox SET error = NULL, set_aside_at = NULL, created_at = now()
WHERE error IS NOT NULL AND id > 0 RETURNING 1

-- name: set_aside_discard
DELETE FROM hookline.outbox WHERE id = ANY (:ids::bigint[]) AND error IS NOT NULL RETURNING 1
