-- What people look at. Bounds on the instants prune partitions; listings go by their indexes.

-- name: message_by_id
SELECT m.*, a.id AS app_id FROM hookline.message m JOIN hookline.application a ON a.no = m.app_no
WHERE m.id = $1::text AND m.created_at >= $2::timestamptz AND m.created_at <= $3::timestamptz
  AND ($4::bigint IS NULL OR m.app_no = $4)

-- name: message_by_event_id
SELECT m.*, a.id AS app_id
FROM hookline.event_id e
JOIN hookline.message m ON m.created_at = e.created_at AND m.id = e.message_id AND m.app_no = e.app_no
JOIN hookline.application a ON a.no = m.app_no
WHERE e.app_no = $1::bigint AND e.event_id = $2::text

-- name: messages
SELECT m.seq, m.id, m.app_no, a.id AS app_id, m.event_type, NULL::bytea AS payload, m.created_at, m.event_id, m.channels,
       m.tags, m.ordering_key, m.deliver_at, m.policy
FROM hookline.message m JOIN hookline.application a ON a.no = m.app_no
WHERE m.app_no = $1::bigint AND ($2::text = '' OR m.id < $2) ORDER BY m.id DESC LIMIT $3

-- name: messages_back
SELECT m.seq, m.id, m.app_no, a.id AS app_id, m.event_type, NULL::bytea AS payload, m.created_at, m.event_id, m.channels,
       m.tags, m.ordering_key, m.deliver_at, m.policy
FROM hookline.message m JOIN hookline.application a ON a.no = m.app_no
WHERE m.app_no = $1::bigint AND m.id > $2::text ORDER BY m.id LIMIT $3

-- name: deliveries
SELECT d.id, d.state::integer AS state, d.app_no, d.endpoint_no, e.id AS endpoint_id, d.message_id, d.event_type, d.attempts,
       d.sent, d.message_at, d.due_at, d.expires_at, NULL::timestamptz AS finished_at, NULL::text AS reason,
       NULL::text AS detail
FROM hookline.delivery d JOIN hookline.endpoint e ON e.no = d.endpoint_no WHERE d.message_id = $1::text
UNION ALL
SELECT d.id, 3, d.app_no, d.endpoint_no, e.id, d.message_id, d.event_type, d.attempts, d.sent, d.message_at, NULL, NULL,
       d.finished_at, NULL, NULL
FROM hookline.delivery_done d JOIN hookline.endpoint e ON e.no = d.endpoint_no
WHERE d.message_id = $1::text AND d.finished_at >= $2::timestamptz
UNION ALL
SELECT d.id, CASE WHEN d.resolved_at IS NULL THEN 4 ELSE 5 END, d.app_no, d.endpoint_no, e.id, d.message_id, d.event_type,
       d.attempts, d.sent, d.message_at, NULL, NULL, d.died_at, d.reason, d.detail
FROM hookline.dead_letter d JOIN hookline.endpoint e ON e.no = d.endpoint_no WHERE d.message_id = $1::text
ORDER BY 1

-- name: attempts
SELECT t.*, e.id AS endpoint_id FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.message_id = $1::text AND t.recorded_at >= $2::timestamptz ORDER BY t.started_at, t.id

-- name: endpoint_attempts
SELECT t.*, e.id AS endpoint_id FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.endpoint_no = $1::bigint AND ($2::text = '' OR t.id < $2) ORDER BY t.id DESC LIMIT $3

-- name: endpoint_attempts_back
SELECT t.*, e.id AS endpoint_id FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.endpoint_no = $1::bigint AND t.id > $2::text ORDER BY t.id LIMIT $3

-- name: lanes
-- $1 organization, $2 application, $3 endpoint; $4 how far deliveries are counted. Errors of the last two days.
SELECT l.*, e.id AS endpoint_id, e.url, a.id AS app_id,
       (SELECT count(*) FROM (
          SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 LIMIT $4::integer) c) AS depth,
       (SELECT d.due_at FROM hookline.delivery d
        WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 ORDER BY d.due_at LIMIT 1) AS oldest_due,
       (SELECT CASE WHEN t.detail <> '' THEN t.detail WHEN t.status_code IS NOT NULL THEN 'status ' || t.status_code
                    ELSE t.error END
        FROM (SELECT id, outcome, detail, status_code, error FROM hookline.attempt
              WHERE endpoint_no = l.endpoint_no AND recorded_at >= now() - interval '2 days'
              ORDER BY id DESC LIMIT 20) t
        WHERE t.outcome <> 'delivered' ORDER BY t.id DESC LIMIT 1) AS last_error
FROM hookline.lane l
JOIN hookline.endpoint e ON e.no = l.endpoint_no
JOIN hookline.application a ON a.no = e.app_no
WHERE l.status < 3 AND ($1::text IS NULL OR a.org_id = $1) AND ($2::bigint IS NULL OR e.app_no = $2)
  AND ($3::bigint IS NULL OR l.endpoint_no = $3)
ORDER BY e.app_no, e.id

-- name: lane_events
SELECT * FROM hookline.lane_event WHERE endpoint_no = $1::bigint ORDER BY id DESC LIMIT $2::integer

-- name: counts
SELECT (SELECT count(*) FROM hookline.delivery WHERE state < 2 AND state = 0) AS pending,
       (SELECT count(*) FROM hookline.delivery WHERE state < 2 AND state = 1) AS scheduled,
       (SELECT count(*) FROM hookline.delivery WHERE state = 2) AS delivering,
       (SELECT count(*) FROM hookline.dead_letter WHERE resolved_at IS NULL) AS dead,
       (SELECT count(*) FROM hookline.lane WHERE circuit > 0) AS lanes_open,
       (SELECT min(due_at) FROM hookline.delivery WHERE state < 2) AS oldest_due
