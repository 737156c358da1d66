-- An example: one message for one endpoint alone. Its delivery is made by `resend`, in the same transaction.

-- name: example_insert
-- $1 endpoint, $2 id, $3 event type, $4 payload.
INSERT INTO hookline.message (id, app_no, event_type, payload, only_for, created_at)
SELECT $2, e.app_no, $3, $4, e.no, now() FROM hookline.endpoint e WHERE e.no = $1 AND e.deleted_at IS NULL
RETURNING created_at
