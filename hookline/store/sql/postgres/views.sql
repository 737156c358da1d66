-- What people look at. Bounds on the instants prune partitions; listings go by their indexes, from $2, which is not part of them,
-- to $3, which is. A filter that is not given is NULL: each call is planned anew, so it costs nothing.

-- name: message_by_event_id
SELECT m.*, a.id AS app_id
FROM hookline.event_id e
JOIN hookline.message m ON m.created_at = e.created_at AND m.id = e.message_id AND m.app_no = e.app_no
JOIN hookline.application a ON a.no = m.app_no
WHERE e.app_no = $1::bigint AND e.event_id = $2::text

-- part: message_shown
SELECT m.seq, m.id, m.app_no, a.id AS app_id, m.event_type, NULL::bytea AS payload, octet_length(m.payload) AS size, m.created_at,
       m.event_id, m.channels, m.tags, m.ordering_key, m.deliver_at, m.policy, m.trace
FROM hookline.message m JOIN hookline.application a ON a.no = m.app_no

-- part: messages_filter
  AND ($5::timestamptz IS NULL OR m.created_at > $5) AND ($6::timestamptz IS NULL OR m.created_at < $6)
  AND ($7::text[] IS NULL OR m.event_type = ANY ($7)) AND ($8::text IS NULL OR $8 = ANY (m.channels))
  AND ($9::text IS NULL OR $9 = ANY (m.tags))

-- name: messages
-- $1 application; $5 after, $6 before; $7 event types, $8 channel, $9 tag.
-- include: message_shown
WHERE m.app_no = $1::bigint AND m.id < $2::text AND m.id >= $3::text
-- include: messages_filter
ORDER BY m.id DESC LIMIT $4::integer

-- name: messages_back
-- include: message_shown
WHERE m.app_no = $1::bigint AND m.id > $2::text AND m.id <= $3::text
-- include: messages_filter
ORDER BY m.id LIMIT $4::integer

-- name: messages_end
-- Where a walk over $4 rows ends, whatever they are; none if it comes to the listing's end before.
SELECT m.id FROM hookline.message m
WHERE m.app_no = $1::bigint AND m.id < $2::text AND m.id >= $3::text
  AND ($5::timestamptz IS NULL OR m.created_at > $5) AND ($6::timestamptz IS NULL OR m.created_at < $6)
ORDER BY m.id DESC OFFSET $4::integer - 1 LIMIT 1

-- name: messages_end_back
SELECT m.id FROM hookline.message m
WHERE m.app_no = $1::bigint AND m.id > $2::text AND m.id <= $3::text
  AND ($5::timestamptz IS NULL OR m.created_at > $5) AND ($6::timestamptz IS NULL OR m.created_at < $6)
ORDER BY m.id OFFSET $4::integer - 1 LIMIT 1

-- name: messages_of
-- Some of an application by their ids, $2, that were accepted from $3 to $4.
-- include: message_shown
WHERE m.app_no = $1::bigint AND m.id = ANY ($2::text[]) AND m.created_at >= $3::timestamptz AND m.created_at <= $4::timestamptz

-- name: message_expunge
-- $1 and $2 its key, $3 its id, $4 even if it is still to be sent.
UPDATE hookline.message SET payload = NULL
WHERE created_at = $1::timestamptz AND seq = $2::bigint
  AND ($4::boolean
       OR NOT EXISTS (SELECT FROM hookline.delivery d WHERE d.message_id = $3::text)
          AND NOT EXISTS (SELECT FROM hookline.dead_letter d WHERE d.message_id = $3::text AND d.resolved_at IS NULL))
RETURNING seq

-- part: keeps
-- Whether the lane n keeps back the open delivery d.
coalesce(d.state < 2 AND (n.status IN (1, 2) OR n.circuit IN (1, 2)
                          OR (n.held_until > now() AND d.due_at < n.held_until)), false)

-- part: message_deliveries
-- Of the message $1, accepted at $2: what became of it was done after that.
SELECT d.id, d.state::integer AS state, d.app_no, d.endpoint_no, e.id AS endpoint_id, d.message_id, d.event_type, d.attempts,
       d.sent, d.message_at, d.due_at, d.expires_at, NULL::timestamptz AS finished_at, NULL::text AS reason,
       NULL::text AS detail,
-- include: keeps
       AS held
FROM hookline.delivery d JOIN hookline.endpoint e ON e.no = d.endpoint_no
LEFT JOIN hookline.lane n ON n.endpoint_no = d.endpoint_no WHERE d.message_id = $1::text
UNION ALL
SELECT d.id, 3, d.app_no, d.endpoint_no, e.id, d.message_id, d.event_type, d.attempts, d.sent, d.message_at, NULL, NULL,
       d.finished_at, NULL, NULL, false
FROM hookline.delivery_done d JOIN hookline.endpoint e ON e.no = d.endpoint_no
WHERE d.message_id = $1::text AND d.finished_at >= $2::timestamptz
UNION ALL
SELECT d.id, CASE WHEN d.resolved_at IS NULL THEN 4 ELSE 5 END, d.app_no, d.endpoint_no, e.id, d.message_id, d.event_type,
       d.attempts, d.sent, d.message_at, NULL, NULL, d.died_at, d.reason, d.detail, false
FROM hookline.dead_letter d JOIN hookline.endpoint e ON e.no = d.endpoint_no WHERE d.message_id = $1::text

-- name: deliveries
-- include: message_deliveries
ORDER BY 1

-- name: deliveries_page
-- $3 after this one; $4 state, $5 whether its lane keeps it: NULL for any.
SELECT f.* FROM (
-- include: message_deliveries
) f WHERE f.id > $3::bigint AND ($4::integer IS NULL OR f.state = $4) AND ($5::boolean IS NULL OR f.held = $5)
ORDER BY f.id LIMIT $6::integer

-- name: attempts
SELECT t.*, e.id AS endpoint_id, e.url AS endpoint_url
FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.message_id = $1::text AND t.recorded_at >= $2::timestamptz ORDER BY t.started_at, t.id

-- name: attempt
SELECT t.*, e.id AS endpoint_id, e.url AS endpoint_url
FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.message_id = $1::text AND t.id = $2::text AND t.recorded_at >= $3::timestamptz

-- name: attempt_expunge
UPDATE hookline.attempt SET response_headers = NULL, response_body = NULL
WHERE message_id = $1::text AND id = $2::text AND recorded_at >= $3::timestamptz RETURNING id

-- part: endpoint_attempts_shown
SELECT t.id, t.delivery_id, t.message_id, t.endpoint_no, e.id AS endpoint_id, e.url AS endpoint_url, t.event_type, t.number,
       t.trigger, t.outcome, t.probe, t.started_at, t.status_code, t.error, t.detail, t.address, t.truncated, t.dns_us,
       t.connect_us, t.tls_us, t.first_byte_us, t.total_us, CASE WHEN $14::boolean THEN t.response_headers END AS response_headers,
       CASE WHEN $14 THEN t.response_body END AS response_body
FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no

-- part: endpoint_attempts_filter
  AND ($5::timestamptz IS NULL OR t.recorded_at >= $5) AND ($6::timestamptz IS NULL OR t.recorded_at < $6)
  AND ($7::timestamptz IS NULL OR t.started_at > $7) AND ($8::timestamptz IS NULL OR t.started_at < $8)
  AND CASE WHEN $9::boolean IS NULL THEN true WHEN $9 THEN t.outcome = 'delivered' ELSE t.outcome <> 'delivered' END
  AND ($10::integer IS NULL OR coalesce(t.status_code, 0) BETWEEN $10 AND $10 + 99)
  AND ($11::text[] IS NULL OR t.event_type = ANY ($11))
  AND ($12::text IS NULL AND $13::text IS NULL
       OR (SELECT ($12 IS NULL OR $12 = ANY (m.channels)) AND ($13 IS NULL OR $13 = ANY (m.tags))
           FROM hookline.message m WHERE m.id = t.message_id AND m.app_no = t.app_no LIMIT 1))

-- name: endpoint_attempts
-- $1 endpoint; $5 to $6 when it can have been recorded; $7 after, $8 before; $9 delivered, $10 the first status code of its class;
-- $11 event types, $12 channel, $13 tag; $14 with what was answered.
-- include: endpoint_attempts_shown
WHERE t.endpoint_no = $1::bigint AND t.id < $2::text AND t.id >= $3::text
-- include: endpoint_attempts_filter
ORDER BY t.id DESC LIMIT $4::integer

-- name: endpoint_attempts_back
-- include: endpoint_attempts_shown
WHERE t.endpoint_no = $1::bigint AND t.id > $2::text AND t.id <= $3::text
-- include: endpoint_attempts_filter
ORDER BY t.id LIMIT $4::integer

-- name: endpoint_attempts_end
-- As `messages_end`; $7 delivered.
SELECT t.id FROM hookline.attempt t
WHERE t.endpoint_no = $1::bigint AND t.id < $2::text AND t.id >= $3::text
  AND ($5::timestamptz IS NULL OR t.recorded_at >= $5) AND ($6::timestamptz IS NULL OR t.recorded_at < $6)
  AND CASE WHEN $7::boolean IS NULL THEN true WHEN $7 THEN t.outcome = 'delivered' ELSE t.outcome <> 'delivered' END
ORDER BY t.id DESC OFFSET $4::integer - 1 LIMIT 1

-- name: endpoint_attempts_end_back
SELECT t.id FROM hookline.attempt t
WHERE t.endpoint_no = $1::bigint AND t.id > $2::text AND t.id <= $3::text
  AND ($5::timestamptz IS NULL OR t.recorded_at >= $5) AND ($6::timestamptz IS NULL OR t.recorded_at < $6)
  AND CASE WHEN $7::boolean IS NULL THEN true WHEN $7 THEN t.outcome = 'delivered' ELSE t.outcome <> 'delivered' END
ORDER BY t.id OFFSET $4::integer - 1 LIMIT 1

-- part: message_attempts_shown
SELECT t.id, t.delivery_id, t.message_id, t.endpoint_no, e.id AS endpoint_id, e.url AS endpoint_url, t.event_type, t.number,
       t.trigger, t.outcome, t.probe, t.started_at, t.status_code, t.error, t.detail, t.address, t.truncated, t.dns_us,
       t.connect_us, t.tls_us, t.first_byte_us, t.total_us, CASE WHEN $11::boolean THEN t.response_headers END AS response_headers,
       CASE WHEN $11 THEN t.response_body END AS response_body
FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no

-- part: message_attempts_filter
  AND t.recorded_at >= $5::timestamptz AND ($6::timestamptz IS NULL OR t.started_at > $6)
  AND ($7::timestamptz IS NULL OR t.started_at < $7) AND ($8::boolean IS NULL OR (t.outcome = 'delivered') = $8)
  AND ($9::integer IS NULL OR coalesce(t.status_code, 0) BETWEEN $9 AND $9 + 99)
  AND ($10::bigint IS NULL OR t.endpoint_no = $10)

-- name: message_attempts
-- $1 message; $5 its history is not older; $6 after, $7 before; $8 delivered, $9 the first status code of its class; $10 endpoint;
-- $11 with what was answered.
-- include: message_attempts_shown
WHERE t.message_id = $1::text AND t.id < $2::text AND t.id >= $3::text
-- include: message_attempts_filter
ORDER BY t.id DESC LIMIT $4::integer

-- name: message_attempts_back
-- include: message_attempts_shown
WHERE t.message_id = $1::text AND t.id > $2::text AND t.id <= $3::text
-- include: message_attempts_filter
ORDER BY t.id LIMIT $4::integer

-- part: attempted_messages_shown
SELECT t.id AS attempt_id, t.started_at AS attempted_at, m.*, a.id AS app_id,
       coalesce(d.state, CASE WHEN t.outcome = 'delivered' THEN 3 ELSE 4 END) AS state,
       (SELECT min(w.due_at) FROM hookline.delivery w
        WHERE w.message_id = t.message_id AND w.endpoint_no = t.endpoint_no AND w.state < 2) AS next_at
FROM hookline.attempt t
JOIN hookline.application a ON a.no = t.app_no
CROSS JOIN LATERAL (
  SELECT m.seq, m.id, m.app_no, m.event_type, NULL::bytea AS payload, octet_length(m.payload) AS size, m.created_at, m.event_id,
         m.channels, m.tags, m.ordering_key, m.deliver_at, m.policy, m.trace
  FROM hookline.message m WHERE m.id = t.message_id AND m.app_no = t.app_no LIMIT 1) m
LEFT JOIN LATERAL (
  SELECT x.state FROM (
    SELECT d.id, d.state::integer AS state FROM hookline.delivery d
    WHERE d.message_id = t.message_id AND d.endpoint_no = t.endpoint_no
    UNION ALL
    SELECT d.id, 3 FROM hookline.delivery_done d
    WHERE d.message_id = t.message_id AND d.endpoint_no = t.endpoint_no AND d.finished_at >= m.created_at
    UNION ALL
    SELECT d.id, CASE WHEN d.resolved_at IS NULL THEN 4 ELSE 5 END FROM hookline.dead_letter d
    WHERE d.message_id = t.message_id AND d.endpoint_no = t.endpoint_no) x
  ORDER BY x.id DESC LIMIT 1) d ON true

-- part: attempted_messages_filter
  AND (t.trigger = 0
       OR NOT EXISTS (SELECT FROM hookline.attempt p
                      WHERE p.message_id = t.message_id AND p.endpoint_no = t.endpoint_no AND p.id < t.id))
  AND ($5::timestamptz IS NULL OR t.recorded_at >= $5) AND ($6::timestamptz IS NULL OR t.recorded_at < $6)
  AND ($7::timestamptz IS NULL OR t.started_at > $7) AND ($8::timestamptz IS NULL OR t.started_at < $8)
  AND ($9::integer[] IS NULL OR coalesce(d.state, CASE WHEN t.outcome = 'delivered' THEN 3 ELSE 4 END) = ANY ($9))
  AND ($10::text[] IS NULL OR t.event_type = ANY ($10)) AND ($11::text IS NULL OR $11 = ANY (m.channels))
  AND ($12::text IS NULL OR $12 = ANY (m.tags))

-- name: attempted_messages
-- Each message at its first attempt: a place that stays. One that was sent by hand may have come after others.
-- $1 endpoint; $5 to $8 as of `endpoint_attempts`; $9 states; $10 event types, $11 channel, $12 tag.
-- include: attempted_messages_shown
WHERE t.endpoint_no = $1::bigint AND t.id < $2::text AND t.id >= $3::text AND t.number = 1
-- include: attempted_messages_filter
ORDER BY t.id DESC LIMIT $4::integer

-- name: attempted_messages_back
-- include: attempted_messages_shown
WHERE t.endpoint_no = $1::bigint AND t.id > $2::text AND t.id <= $3::text AND t.number = 1
-- include: attempted_messages_filter
ORDER BY t.id LIMIT $4::integer

-- part: lane_seen
-- $2 how far deliveries are counted, in the order of the indexes that have them by lane: beside a long backlog the planner would
-- read the whole table for each idle lane. Errors of the last two days.
l.*, e.id AS endpoint_id, e.url, e.description, a.id AS app_id,
       (SELECT count(*) FROM (
          (SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state < 2
           ORDER BY d.due_at LIMIT $2::integer)
          UNION ALL
          (SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state = 6
           ORDER BY d.ordering_key LIMIT $2)
          LIMIT $2) c) AS depth,
       (SELECT d.due_at FROM hookline.delivery d
        WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 ORDER BY d.due_at LIMIT 1) AS oldest_due,
       (SELECT coalesce('status ' || t.status_code, t.error)
                || CASE WHEN t.detail = '' THEN '' ELSE ': ' || t.detail END
        FROM (SELECT id, outcome, detail, status_code, error FROM hookline.attempt
              WHERE endpoint_no = l.endpoint_no AND recorded_at >= now() - interval '2 days'
              ORDER BY id DESC LIMIT 20) t
        WHERE t.outcome <> 'delivered' ORDER BY t.id DESC LIMIT 1) AS last_error

-- name: lanes
-- $1 organization, $3 application, $4 endpoint.
SELECT
-- include: lane_seen
FROM hookline.lane l
JOIN hookline.endpoint e ON e.no = l.endpoint_no
JOIN hookline.application a ON a.no = e.app_no
WHERE l.status < 3 AND ($1::text IS NULL OR a.org_id = $1) AND ($3::bigint IS NULL OR e.app_no = $3)
  AND ($4::bigint IS NULL OR l.endpoint_no = $4)
ORDER BY e.app_no, e.id

-- name: lane_page
-- $1 organization, $3 application, $4 the id behind which it goes on, $5 what the URL has in it, $6 how many, $7 the state.
WITH found AS (
  SELECT e.no FROM hookline.application a JOIN hookline.endpoint e ON e.app_no = a.no
  WHERE a.org_id = $1::text AND a.deleted_at IS NULL AND e.deleted_at IS NULL AND ($3::bigint IS NULL OR a.no = $3)
    AND e.id > $4::text COLLATE "C" AND ($5::text = '' OR position($5 in lower(e.url)) > 0)
    AND ($7::text IS NULL OR (
      SELECT CASE WHEN $7 = 'sick' THEN s.state <> 'well' ELSE s.state = $7 END FROM (
        SELECT CASE WHEN n.status = 1 THEN 'paused' WHEN n.status = 2 THEN 'disabled'
                    WHEN n.circuit = 1 THEN 'open' WHEN n.circuit = 2 THEN 'half_open'
                    WHEN n.held_until > now() THEN 'held' WHEN n.circuit = 3 THEN 'recovering'
                    WHEN n.failures > 0 THEN 'failing' WHEN n.pace IS NOT NULL THEN 'slowed' ELSE 'well' END AS state
        FROM hookline.lane n WHERE n.endpoint_no = e.no) s))
  ORDER BY e.id LIMIT $6::integer)
SELECT
-- include: lane_seen
FROM found f
JOIN hookline.lane l ON l.endpoint_no = f.no
JOIN hookline.endpoint e ON e.no = f.no
JOIN hookline.application a ON a.no = e.app_no
WHERE l.status < 3
ORDER BY e.id

-- name: lane_events
-- Written as a range: with an equation the order is that of the primary key too, and the planner walks it through the events of
-- everybody else.
SELECT * FROM hookline.lane_event WHERE endpoint_no BETWEEN $1::bigint AND $1
ORDER BY endpoint_no DESC, id DESC LIMIT $2::integer

-- name: timeline
-- By number: the instant is that of the transaction's beginning, and who began first may have changed the lane last.
SELECT * FROM hookline.lane_event WHERE (endpoint_no, id) < ($1::bigint, $2::bigint) AND endpoint_no >= $1
ORDER BY endpoint_no DESC, id DESC LIMIT $3::integer

-- name: timeline_back
SELECT * FROM hookline.lane_event WHERE (endpoint_no, id) > ($1::bigint, $2::bigint) AND endpoint_no <= $1
ORDER BY endpoint_no, id LIMIT $3::integer

-- name: counts
SELECT (SELECT count(*) FROM hookline.delivery WHERE state < 2 AND state = 0) AS pending,
       (SELECT count(*) FROM hookline.delivery WHERE state < 2 AND state = 1) AS scheduled,
       (SELECT count(*) FROM hookline.delivery WHERE state = 6) AS queued,
       (SELECT count(*) FROM hookline.delivery WHERE state = 2) AS delivering,
       (SELECT count(*) FROM hookline.dead_letter WHERE resolved_at IS NULL) AS dead,
       (SELECT count(*) FROM hookline.lane WHERE circuit > 0) AS lanes_open,
       (SELECT min(due_at) FROM hookline.delivery WHERE state < 2) AS oldest_due
