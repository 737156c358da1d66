-- What people look at. Listings go by their indexes.

-- name: message_by_ref
SELECT m.*, a.id AS app_id FROM message m JOIN application a ON a.no = m.app_no WHERE m.app_no = :app_no AND m.id = :ref;

-- name: message_by_event_id
SELECT m.*, a.id AS app_id
  FROM event_id e JOIN message m ON m.id = e.message_id AND m.app_no = e.app_no JOIN application a ON a.no = m.app_no
 WHERE e.app_no = :app_no AND e.event_id = :ref;

-- name: message_by_id
SELECT m.*, a.id AS app_id FROM message m JOIN application a ON a.no = m.app_no WHERE m.id = ?;

-- name: messages
SELECT m.seq, m.id, m.app_no, a.id AS app_id, m.event_type, NULL AS payload, m.created_at, m.event_id, m.channels,
       m.tags, m.ordering_key, m.deliver_at, m.policy
  FROM message m JOIN application a ON a.no = m.app_no
 WHERE m.app_no = :of AND m.id < :iterator ORDER BY m.id DESC LIMIT :limit;

-- name: messages_back
SELECT m.seq, m.id, m.app_no, a.id AS app_id, m.event_type, NULL AS payload, m.created_at, m.event_id, m.channels,
       m.tags, m.ordering_key, m.deliver_at, m.policy
  FROM message m JOIN application a ON a.no = m.app_no
 WHERE m.app_no = :of AND m.id > :iterator ORDER BY m.id LIMIT :limit;

-- name: deliveries
SELECT d.id, d.state, d.app_no, d.endpoint_no, e.id AS endpoint_id, d.message_id, d.event_type, d.attempts, d.sent,
       d.message_at, d.due_at, d.expires_at, NULL AS finished_at, NULL AS reason, NULL AS detail
  FROM delivery d JOIN endpoint e ON e.no = d.endpoint_no WHERE d.message_id = :id
UNION ALL
SELECT d.id, 3, d.app_no, d.endpoint_no, e.id, d.message_id, d.event_type, d.attempts, d.sent,
       d.message_at, NULL, NULL, d.finished_at, NULL, NULL
  FROM delivery_done d JOIN endpoint e ON e.no = d.endpoint_no WHERE d.message_id = :id
UNION ALL
SELECT d.id, CASE WHEN d.resolved_at IS NULL THEN 4 ELSE 5 END, d.app_no, d.endpoint_no, e.id, d.message_id,
       d.event_type, d.attempts, d.sent, d.message_at, NULL, NULL, d.died_at, d.reason, d.detail
  FROM dead_letter d JOIN endpoint e ON e.no = d.endpoint_no WHERE d.message_id = :id
ORDER BY 1;

-- name: attempts
SELECT t.*, e.id AS endpoint_id FROM attempt t JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.message_id = ? ORDER BY t.started_at, t.id;

-- name: endpoint_attempts
SELECT t.*, e.id AS endpoint_id FROM attempt t JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.endpoint_no = :of AND t.id < :iterator ORDER BY t.id DESC LIMIT :limit;

-- name: endpoint_attempts_back
SELECT t.*, e.id AS endpoint_id FROM attempt t JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.endpoint_no = :of AND t.id > :iterator ORDER BY t.id LIMIT :limit;

-- name: lane_numbers
SELECT e.no FROM endpoint e WHERE e.app_no = ? AND e.deleted_at IS NULL ORDER BY e.id;

-- name: lane_apps
SELECT no FROM application WHERE org_id = ? AND deleted_at IS NULL ORDER BY id;

-- name: lane_all
SELECT endpoint_no FROM lane WHERE status < 3 AND endpoint_no > 0 ORDER BY endpoint_no;

-- name: lane_view
SELECT n.*, e.id AS endpoint_id, e.url AS url, a.id AS app_id,
       (SELECT count(*) FROM (SELECT 1 FROM delivery d WHERE d.endpoint_no = n.endpoint_no AND d.state < 2
                               LIMIT :bound)) AS depth,
       (SELECT d.due_at FROM delivery d WHERE d.endpoint_no = n.endpoint_no AND d.state < 2
         ORDER BY d.due_at LIMIT 1) AS oldest_due,
       (SELECT CASE WHEN t.detail <> '' THEN t.detail WHEN t.status_code IS NOT NULL THEN 'status ' || t.status_code
                    ELSE t.error END
          FROM (SELECT * FROM attempt WHERE endpoint_no = n.endpoint_no ORDER BY id DESC LIMIT 20) t
         WHERE t.outcome <> 'delivered' ORDER BY t.id DESC LIMIT 1) AS last_error
  FROM lane n JOIN endpoint e ON e.no = n.endpoint_no JOIN application a ON a.no = e.app_no
 WHERE n.endpoint_no = :no AND n.status < 3;

-- name: lane_events
SELECT * FROM lane_event WHERE endpoint_no = ? ORDER BY id DESC LIMIT ?;

-- name: counts_waiting
SELECT state, count(*) FROM delivery WHERE state < 2 AND expires_at > 0 GROUP BY state;

-- name: counts_delivering
SELECT count(*) FROM delivery WHERE state = 2 AND lease_until > 0;

-- name: counts_dead
SELECT count(*) FROM dead_letter WHERE resolved_at IS NULL AND id > 0;

-- name: counts_lanes_open
SELECT count(*) FROM lane WHERE circuit > 0;
