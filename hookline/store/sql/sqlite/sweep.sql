-- The statements of the sweep, which handles rows in batches.

-- name: sweep_guard
-- On SQLite the lock of the sweep is always free, because there is only one writer.
SELECT TRUE;

-- name: sweep_leases_find
SELECT id, endpoint_no, counted FROM delivery
 WHERE state = 2 AND lease_until <= ? ORDER BY lease_until LIMIT ?;

-- name: sweep_leases_ahead
-- Finds leases that end later than now plus the maximum length of a lease. They were made while the clock was ahead.
SELECT id, endpoint_no, counted FROM delivery
 WHERE state = 2 AND lease_until > ? ORDER BY lease_until DESC LIMIT ?;

-- name: sweep_leases_back
UPDATE delivery SET state = 0, due_at = ?, lease_until = NULL, claim = NULL, counted = 0
 WHERE id IN (SELECT value FROM json_each(?));

-- name: sweep_expired_find
SELECT d.id, coalesce(l.status, 3) FROM delivery d LEFT JOIN lane l ON l.endpoint_no = d.endpoint_no
 WHERE d.state < 2 AND d.expires_at <= ? ORDER BY d.expires_at LIMIT ?;

-- name: sweep_expired_queued
SELECT d.id, coalesce(l.status, 3) FROM delivery d LEFT JOIN lane l ON l.endpoint_no = d.endpoint_no
 WHERE d.state = 6 AND d.expires_at <= ? ORDER BY d.expires_at LIMIT ?;

-- name: sweep_expired_hold
-- Deliveries in a paused lane are checked again much later, because a resume restarts their time budget.
UPDATE delivery SET expires_at = ? WHERE id IN (SELECT value FROM json_each(?));

-- name: sweep_dead
INSERT INTO dead_letter (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent,
                         policy, last_status, reason, detail, died_at, ordering_key)
SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent,
       policy, last_status, :reason, :detail, :now, ordering_key
  FROM delivery WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id, endpoint_no, message_id, message_at, sent, event_type, died_at,
          (SELECT d.trigger FROM delivery d WHERE d.id = dead_letter.id) AS trigger,
          (SELECT m.trace FROM message m WHERE m.seq = dead_letter.message_seq) AS trace;

-- name: sweep_deleted_lanes
SELECT endpoint_no FROM lane WHERE status = 3 AND endpoint_no > 0 ORDER BY endpoint_no LIMIT ?;

-- name: sweep_deleted_find
SELECT id FROM delivery WHERE endpoint_no = ? AND state < 2 ORDER BY due_at, id LIMIT ?;

-- name: sweep_deleted_queued
SELECT id FROM delivery WHERE endpoint_no = ? AND state = 6 ORDER BY ordering_key, message_seq LIMIT ?;

-- name: queued_lanes
-- The lanes with queued deliveries, one index lookup each.
WITH RECURSIVE queued (endpoint_no) AS (
    SELECT (SELECT endpoint_no FROM delivery WHERE state = 6 AND endpoint_no > 0 ORDER BY endpoint_no LIMIT 1)
    UNION ALL
    SELECT (SELECT d.endpoint_no FROM delivery d
             WHERE d.state = 6 AND d.endpoint_no > w.endpoint_no ORDER BY d.endpoint_no LIMIT 1)
      FROM queued w WHERE w.endpoint_no IS NOT NULL
)
SELECT w.endpoint_no FROM queued w WHERE w.endpoint_no IS NOT NULL;

-- name: sweep_lanes_drop
DELETE FROM lane WHERE endpoint_no = ? AND status = 3;

-- name: sweep_token_lanes
WITH RECURSIVE token (endpoint_no) AS (
    SELECT (SELECT endpoint_no FROM wake WHERE endpoint_no > 0 ORDER BY endpoint_no LIMIT 1)
    UNION ALL
    SELECT (SELECT w.endpoint_no FROM wake w WHERE w.endpoint_no > t.endpoint_no ORDER BY w.endpoint_no LIMIT 1)
      FROM token t WHERE t.endpoint_no IS NOT NULL
)
SELECT t.endpoint_no FROM token t
 WHERE t.endpoint_no IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lane l WHERE l.endpoint_no = t.endpoint_no);

-- name: sweep_failing_dead
SELECT d.endpoint_no, count(*) FROM dead_letter d INDEXED BY dead_letter_age
 WHERE d.died_at > :since AND d.reason NOT IN ('budget_exhausted', 'endpoint_deleted')
 GROUP BY d.endpoint_no HAVING count(*) > :pause_dead;

-- name: sweep_failing_since_resume
-- Counts only the dead letters since the endpoint was last resumed or enabled, because earlier dead letters may have
-- caused the last pause.
SELECT count(*) FROM dead_letter d
 WHERE d.endpoint_no = :no AND d.reason NOT IN ('budget_exhausted', 'endpoint_deleted')
   AND d.died_at > max(:since, coalesce((SELECT max(e.at) FROM lane_event e
         WHERE e.endpoint_no = :no AND e.kind IN ('endpoint_resumed', 'endpoint_enabled')), 0));

-- name: sweep_failing_long
SELECT endpoint_no, failing_since FROM lane WHERE failing_since IS NOT NULL AND failing_since <= ? AND status = 0 AND circuit <> 0;
