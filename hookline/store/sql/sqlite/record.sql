-- Record: find the deliveries that still have the claim token of the result, finish or reschedule them, write the
-- attempts, then update the lanes.

-- name: record_fence
SELECT id, claim FROM delivery WHERE id IN (SELECT value FROM json_each(?)) AND state = 2;

-- name: record_lanes
SELECT l.* FROM lane l
 WHERE l.endpoint_no IN (SELECT value FROM json_each(:all))
   AND (l.circuit <> 0 OR l.failures > 0 OR l.failing_since IS NOT NULL
        OR l.endpoint_no IN (SELECT value FROM json_each(:always)));

-- name: record_delivered
INSERT INTO delivery_done (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent,
                           finished_at)
SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts + 1, sent + 1, ?
  FROM delivery WHERE id IN (SELECT value FROM json_each(?));

-- name: record_dead
INSERT INTO dead_letter (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent,
                         policy, last_status, reason, detail, died_at, ordering_key)
SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts + 1, sent + 1,
       policy, :status, :reason, :detail, :now, ordering_key
  FROM delivery WHERE id = :id;

-- name: record_closed
DELETE FROM delivery WHERE id IN (SELECT value FROM json_each(?));

-- name: record_retry
UPDATE delivery
   SET state = 1, due_at = ?, attempts = attempts + ?, sent = sent + 1, lease_until = NULL, claim = NULL,
       counted = 0, last_delay = ?, last_status = ?
 WHERE id = ?;

-- name: record_attempts
INSERT INTO attempt (id, delivery_id, app_no, endpoint_no, message_id, event_type, number, trigger, outcome, probe,
                     started_at, status_code, error, detail, address, response_headers, response_body, truncated,
                     dns_us, connect_us, tls_us, first_byte_us, total_us, recorded_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: endpoints_disable
UPDATE endpoint SET status = 2, status_reason = ?, revision = revision + 1, updated_at = ?
 WHERE no = ? AND status = 0;

-- name: release
UPDATE delivery SET state = 0, lease_until = NULL, claim = NULL, counted = 0
 WHERE id IN (SELECT value FROM json_each(?));
