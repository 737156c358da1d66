-- Replays: statements of both engines.

-- name: dead_lock
-- Ordered by time of death, so that tasks and operators lock rows in one order.
SELECT id FROM hookline.dead_letter WHERE id = ANY (:ids::bigint[]) ORDER BY died_at, id FOR UPDATE

-- name: endpoint_lives
SELECT no FROM hookline.endpoint WHERE no = :no AND deleted_at IS NULL

-- name: example_insert
-- Inserts a test message for one endpoint. No row: the endpoint was deleted.
INSERT INTO hookline.message (id, app_no, event_type, payload, only_for, created_at)
SELECT :id, e.app_no, :event_type, :payload, e.no, now() FROM hookline.endpoint e WHERE e.no = :no AND e.deleted_at IS NULL
RETURNING created_at
