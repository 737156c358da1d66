-- Ingest writes messages, deliveries, event ids and idempotency keys. It never writes lane rows.

-- name: ingest_application
SELECT org_id FROM application WHERE no = ? AND deleted_at IS NULL;

-- name: ingest_targets
SELECT no, event_types, channels, policy, ordering FROM endpoint WHERE app_no = ? AND deleted_at IS NULL AND status < 2;

-- name: ingest_type_policies
SELECT name, policy FROM event_type WHERE org_id = ? AND policy IS NOT NULL;

-- name: ingest_keys
SELECT body, message_id, created_at FROM idempotency WHERE key = ? AND expires_at > ?;

-- name: ingest_batch_kept
SELECT body, answers FROM idempotency WHERE key = ? AND expires_at > ?;

-- name: ingest_batch_keep
INSERT OR REPLACE INTO idempotency (key, body, message_id, created_at, expires_at, answers) VALUES (?, ?, '', ?, ?, ?);

-- name: ingest_event_ids
SELECT message_id, created_at FROM event_id WHERE app_no = ? AND event_id = ?;

-- name: ingest_last_seq
SELECT seq FROM sqlite_sequence WHERE name = 'message';

-- name: message_insert
INSERT INTO message (seq, id, app_no, event_type, event_id, channels, tags, ordering_key, deliver_at, policy, payload,
                     created_at, trace)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: event_id_insert
INSERT INTO event_id (app_no, event_id, message_id, created_at) VALUES (?, ?, ?, ?);

-- name: key_insert
INSERT OR REPLACE INTO idempotency (key, body, message_id, created_at, expires_at) VALUES (?, ?, ?, ?, ?);

-- name: delivery_insert
INSERT INTO delivery (app_no, endpoint_no, message_seq, message_at, message_id, event_type, trigger, due_at, expires_at,
                      policy, ordering_key, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
