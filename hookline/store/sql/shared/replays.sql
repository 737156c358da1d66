-- The ways back from death: what both engines do in the same way.

-- name: dead_lock
-- In the order in which tasks and operators come by them.
SELECT id FROM hookline.dead_letter WHERE id = ANY (:ids::bigint[]) ORDER BY died_at, id FOR UPDATE

-- name: endpoint_lives
SELECT no FROM hookline.endpoint WHERE no = :no AND deleted_at IS NULL

-- name: example_insert
-- A test message, for one endpoint alone. No row: the endpoint is gone.
INSERT INTO hookline.message (id, app_no, event_type, payload, only_for, created_at)
SELECT :id, e.app_no, :event_type, :payload, e.no, now() FROM hookline.endpoint e WHERE e.no = :no AND e.deleted_at IS NULL
RETURNING created_at
