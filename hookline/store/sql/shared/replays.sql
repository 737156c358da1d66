-- Replays: statements of both engines.

-- name: dead_lock
-- `replay` and `resolve` lock dead letters in the same order, so that background tasks and operators do not deadlock.
SELECT id FROM hookline.dead_letter WHERE id = ANY (:ids::bigint[]) ORDER BY died_at, id FOR UPDATE

-- name: endpoint_lives
SELECT no FROM hookline.endpoint WHERE no = :no AND deleted_at IS NULL

-- name: example_insert
-- Inserts a test message for one endpoint. Returns no row if the endpoint was deleted.
INSERT INTO hookline.message (id, app_no, event_type, payload, only_for, created_at)
SELECT :id, e.app_no, :event_type, :payload, e.no, now() FROM hookline.endpoint e WHERE e.no = :no AND e.deleted_at IS NULL
RETURNING created_at
