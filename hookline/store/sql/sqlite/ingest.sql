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

-- name: ingest_last_numbers
SELECT name, seq FROM sqlite_sequence WHERE name IN ('message', 'delivery');

-- name: ingest_offered
-- The lanes of the endpoints of a worker's offer, without those from which a claim might not lease a new delivery at
-- once: lanes with a limit, a failure or other deliveries that wait. A lane with such deliveries has a wake token.
SELECT endpoint_no, revision, epoch FROM lane l
WHERE endpoint_no IN (SELECT value FROM json_each(?)) AND status = 0 AND circuit = 0 AND failures = 0
  AND failing_since IS NULL AND "window" IS NULL AND throttle_rate IS NULL AND concurrency IS NULL AND pace IS NULL
  AND app_rate IS NULL AND (held_until IS NULL OR held_until <= ?)
  AND NOT EXISTS (SELECT 1 FROM wake w WHERE w.endpoint_no = l.endpoint_no);

-- name: message_insert
INSERT INTO message (seq, id, app_no, event_type, event_id, channels, tags, ordering_key, deliver_at, policy, payload,
                     created_at, trace)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: event_id_insert
INSERT INTO event_id (app_no, event_id, message_id, created_at) VALUES (?, ?, ?, ?);

-- name: key_insert
INSERT OR REPLACE INTO idempotency (key, body, message_id, created_at, expires_at) VALUES (?, ?, ?, ?, ?);

-- name: delivery_insert
INSERT INTO delivery (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, trigger, due_at, expires_at,
                      policy, ordering_key, state, claim, lease_until)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
