-- Outbox rows that could not become messages: retry or discard them.

-- name: set_aside_retry
UPDATE hookline.outbox SET error = NULL, set_aside_at = NULL WHERE id = ANY (:ids::bigint[]) AND error IS NOT NULL RETURNING 1

-- name: set_aside_retry_all
UPDATE hookline.outbox SET error = NULL, set_aside_at = NULL WHERE error IS NOT NULL AND id > 0 RETURNING 1

-- name: set_aside_discard
DELETE FROM hookline.outbox WHERE id = ANY (:ids::bigint[]) AND error IS NOT NULL RETURNING 1
