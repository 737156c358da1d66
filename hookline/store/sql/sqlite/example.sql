-- An example: one message for one endpoint alone. Its delivery is made by `resend`, in the same transaction.

-- name: example_insert
INSERT INTO message (id, app_no, event_type, payload, only_for, created_at) VALUES (?, ?, ?, ?, ?, ?);
