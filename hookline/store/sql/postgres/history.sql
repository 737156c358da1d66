-- Listings. Conditions on a row's time let the planner skip partitions. A scan follows an index from the id :near,
-- which is excluded, to the id :far, which is included. A filter that is not set is NULL. PostgreSQL plans each call
-- anew, so an unused filter costs nothing.

-- name: message_by_event_id
SELECT m.*, a.id AS app_id
FROM hookline.event_id e
JOIN hookline.message m ON m.created_at = e.created_at AND m.id = e.message_id AND m.app_no = e.app_no
JOIN hookline.application a ON a.no = m.app_no
WHERE e.app_no = :app_no::bigint AND e.event_id = :ref::text

-- part: message_shown
SELECT m.seq, m.id, m.app_no, a.id AS app_id, m.event_type, NULL::bytea AS payload, octet_length(m.payload) AS size, m.created_at,
       m.event_id, m.channels, m.tags, m.ordering_key, m.deliver_at, m.policy, m.trace
FROM hookline.message m JOIN hookline.application a ON a.no = m.app_no

-- part: messages_filter
  AND (:after::timestamptz IS NULL OR m.created_at > :after) AND (:before::timestamptz IS NULL OR m.created_at < :before)
  AND (:event_types::text[] IS NULL OR m.event_type = ANY (:event_types)) AND (:channel::text IS NULL OR :channel = ANY (m.channels))
  AND (:tag::text IS NULL OR :tag = ANY (m.tags))

-- name: messages
-- include: message_shown
WHERE m.app_no = :of::bigint AND m.id < :near::text AND m.id >= :far::text
-- include: messages_filter
ORDER BY m.id DESC LIMIT :limit::integer

-- name: messages_back
-- include: message_shown
WHERE m.app_no = :of::bigint AND m.id > :near::text AND m.id <= :far::text
-- include: messages_filter
ORDER BY m.id LIMIT :limit::integer

-- name: messages_end
-- The id at which a scan of :stride rows ends. The scan counts all rows, whether they match the filter or not. No
-- result: fewer than :stride rows are left.
SELECT m.id FROM hookline.message m
WHERE m.app_no = :of::bigint AND m.id < :near::text AND m.id >= :far::text
  AND (:after::timestamptz IS NULL OR m.created_at > :after) AND (:before::timestamptz IS NULL OR m.created_at < :before)
ORDER BY m.id DESC OFFSET :stride::integer - 1 LIMIT 1

-- name: messages_end_back
SELECT m.id FROM hookline.message m
WHERE m.app_no = :of::bigint AND m.id > :near::text AND m.id <= :far::text
  AND (:after::timestamptz IS NULL OR m.created_at > :after) AND (:before::timestamptz IS NULL OR m.created_at < :before)
ORDER BY m.id OFFSET :stride::integer - 1 LIMIT 1

-- name: messages_of
-- include: message_shown
WHERE m.app_no = :of::bigint AND m.id = ANY (:ids::text[]) AND m.created_at >= :since::timestamptz AND m.created_at <= :until::timestamptz

-- name: message_payloads
-- :first and :last are the oldest and the newest of :instants. They let the planner skip partitions.
SELECT m.seq, m.payload
FROM unnest(:instants::timestamptz[], :seqs::bigint[]) AS r (at, seq)
JOIN hookline.message m ON m.created_at = r.at AND m.seq = r.seq
WHERE m.created_at >= :first::timestamptz AND m.created_at <= :last::timestamptz

-- name: message_expunge
UPDATE hookline.message SET payload = NULL
WHERE created_at = :created_at::timestamptz AND seq = :seq::bigint
  AND (:force::boolean
       OR NOT EXISTS (SELECT FROM hookline.delivery d WHERE d.message_id = :id::text)
          AND NOT EXISTS (SELECT FROM hookline.dead_letter d WHERE d.message_id = :id::text AND d.resolved_at IS NULL))
RETURNING seq

-- part: keeps
-- Whether the lane n holds back the open delivery d.
coalesce(d.state < 2 AND (n.status IN (1, 2) OR n.circuit IN (1, 2)
                          OR (n.held_until > now() AND d.due_at < n.held_until)), false)

-- part: message_deliveries
-- Deliveries of the message :id, accepted at :accepted_at. No row about the message is older than :accepted_at.
SELECT d.id, d.state::integer AS state, d.app_no, d.endpoint_no, e.id AS endpoint_id, d.message_id, d.event_type, d.attempts,
       d.sent, d.message_at, d.due_at, d.expires_at, NULL::timestamptz AS finished_at, NULL::text AS reason,
       NULL::text AS detail,
-- include: keeps
       AS held
FROM hookline.delivery d JOIN hookline.endpoint e ON e.no = d.endpoint_no
LEFT JOIN hookline.lane n ON n.endpoint_no = d.endpoint_no WHERE d.message_id = :id::text
UNION ALL
SELECT d.id, 3, d.app_no, d.endpoint_no, e.id, d.message_id, d.event_type, d.attempts, d.sent, d.message_at, NULL, NULL,
       d.finished_at, NULL, NULL, false
FROM hookline.delivery_done d JOIN hookline.endpoint e ON e.no = d.endpoint_no
WHERE d.message_id = :id::text AND d.finished_at >= :accepted_at::timestamptz
UNION ALL
SELECT d.id, CASE WHEN d.resolved_at IS NULL THEN 4 ELSE 5 END, d.app_no, d.endpoint_no, e.id, d.message_id, d.event_type,
       d.attempts, d.sent, d.message_at, NULL, NULL, d.died_at, d.reason, d.detail, false
FROM hookline.dead_letter d JOIN hookline.endpoint e ON e.no = d.endpoint_no WHERE d.message_id = :id::text

-- name: deliveries
-- include: message_deliveries
ORDER BY 1

-- name: deliveries_page
-- :after is the last delivery id of the previous page. The filters :state and :held (whether the lane holds back the
-- delivery) may be NULL.
SELECT f.* FROM (
-- include: message_deliveries
) f WHERE f.id > :after::bigint AND (:state::integer IS NULL OR f.state = :state) AND (:held::boolean IS NULL OR f.held = :held)
ORDER BY f.id LIMIT :limit::integer

-- name: attempts
SELECT t.*, e.id AS endpoint_id, e.url AS endpoint_url
FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.message_id = :id::text AND t.recorded_at >= :accepted_at::timestamptz ORDER BY t.started_at, t.id

-- name: attempt
SELECT t.*, e.id AS endpoint_id, e.url AS endpoint_url
FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.message_id = :id::text AND t.id = :attempt_id::text AND t.recorded_at >= :accepted_at::timestamptz

-- name: attempt_expunge
UPDATE hookline.attempt SET response_headers = NULL, response_body = NULL
WHERE message_id = :id::text AND id = :attempt_id::text AND recorded_at >= :accepted_at::timestamptz RETURNING id

-- part: attempt_shown
SELECT t.id, t.delivery_id, t.message_id, t.endpoint_no, e.id AS endpoint_id, e.url AS endpoint_url, t.event_type, t.number,
       t.trigger, t.outcome, t.probe, t.started_at, t.status_code, t.error, t.detail, t.address, t.truncated, t.dns_us,
       t.connect_us, t.tls_us, t.first_byte_us, t.total_us, CASE WHEN :content::boolean THEN t.response_headers END AS response_headers,
       CASE WHEN :content THEN t.response_body END AS response_body
FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no

-- part: endpoint_attempts_filter
  AND (:recorded_after::timestamptz IS NULL OR t.recorded_at >= :recorded_after) AND (:recorded_before::timestamptz IS NULL OR t.recorded_at < :recorded_before)
  AND (:after::timestamptz IS NULL OR t.started_at > :after) AND (:before::timestamptz IS NULL OR t.started_at < :before)
  AND CASE WHEN :delivered::boolean IS NULL THEN true WHEN :delivered THEN t.outcome = 'delivered' ELSE t.outcome <> 'delivered' END
  AND (:code_class::integer IS NULL OR coalesce(t.status_code, 0) BETWEEN :code_class AND :code_class + 99)
  AND (:event_types::text[] IS NULL OR t.event_type = ANY (:event_types))
  AND (:channel::text IS NULL AND :tag::text IS NULL
       OR (SELECT (:channel IS NULL OR :channel = ANY (m.channels)) AND (:tag IS NULL OR :tag = ANY (m.tags))
           FROM hookline.message m WHERE m.id = t.message_id AND m.app_no = t.app_no LIMIT 1))

-- name: endpoint_attempts
-- include: attempt_shown
WHERE t.endpoint_no = :of::bigint AND t.id < :near::text AND t.id >= :far::text
-- include: endpoint_attempts_filter
ORDER BY t.id DESC LIMIT :limit::integer

-- name: endpoint_attempts_back
-- include: attempt_shown
WHERE t.endpoint_no = :of::bigint AND t.id > :near::text AND t.id <= :far::text
-- include: endpoint_attempts_filter
ORDER BY t.id LIMIT :limit::integer

-- name: endpoint_attempts_end
-- Like `messages_end`, for attempts. If :delivered is true, the scan counts only delivered attempts. If it is false,
-- the scan counts only the other attempts.
SELECT t.id FROM hookline.attempt t
WHERE t.endpoint_no = :of::bigint AND t.id < :near::text AND t.id >= :far::text
  AND (:recorded_after::timestamptz IS NULL OR t.recorded_at >= :recorded_after) AND (:recorded_before::timestamptz IS NULL OR t.recorded_at < :recorded_before)
  AND CASE WHEN :delivered::boolean IS NULL THEN true WHEN :delivered THEN t.outcome = 'delivered' ELSE t.outcome <> 'delivered' END
ORDER BY t.id DESC OFFSET :stride::integer - 1 LIMIT 1

-- name: endpoint_attempts_end_back
SELECT t.id FROM hookline.attempt t
WHERE t.endpoint_no = :of::bigint AND t.id > :near::text AND t.id <= :far::text
  AND (:recorded_after::timestamptz IS NULL OR t.recorded_at >= :recorded_after) AND (:recorded_before::timestamptz IS NULL OR t.recorded_at < :recorded_before)
  AND CASE WHEN :delivered::boolean IS NULL THEN true WHEN :delivered THEN t.outcome = 'delivered' ELSE t.outcome <> 'delivered' END
ORDER BY t.id OFFSET :stride::integer - 1 LIMIT 1

-- part: message_attempts_filter
  AND t.recorded_at >= :accepted_at::timestamptz AND (:after::timestamptz IS NULL OR t.started_at > :after)
  AND (:before::timestamptz IS NULL OR t.started_at < :before) AND (:delivered::boolean IS NULL OR (t.outcome = 'delivered') = :delivered)
  AND (:code_class::integer IS NULL OR coalesce(t.status_code, 0) BETWEEN :code_class AND :code_class + 99)
  AND (:endpoint_no::bigint IS NULL OR t.endpoint_no = :endpoint_no)

-- name: message_attempts
-- include: attempt_shown
WHERE t.message_id = :of::text AND t.id < :near::text AND t.id >= :far::text
-- include: message_attempts_filter
ORDER BY t.id DESC LIMIT :limit::integer

-- name: message_attempts_back
-- include: attempt_shown
WHERE t.message_id = :of::text AND t.id > :near::text AND t.id <= :far::text
-- include: message_attempts_filter
ORDER BY t.id LIMIT :limit::integer

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
  AND NOT EXISTS (SELECT FROM hookline.attempt p
                  WHERE p.message_id = t.message_id AND p.endpoint_no = t.endpoint_no AND p.id < t.id
                    AND p.recorded_at >= m.created_at)
  AND (:recorded_after::timestamptz IS NULL OR t.recorded_at >= :recorded_after) AND (:recorded_before::timestamptz IS NULL OR t.recorded_at < :recorded_before)
  AND (:after::timestamptz IS NULL OR t.started_at > :after) AND (:before::timestamptz IS NULL OR t.started_at < :before)
  AND (:states::integer[] IS NULL OR coalesce(d.state, CASE WHEN t.outcome = 'delivered' THEN 3 ELSE 4 END) = ANY (:states))
  AND (:event_types::text[] IS NULL OR t.event_type = ANY (:event_types)) AND (:channel::text IS NULL OR :channel = ANY (m.channels))
  AND (:tag::text IS NULL OR :tag = ANY (m.tags))

-- name: attempted_messages
-- Lists a message at its first attempt at the endpoint, so later attempts do not move the message in the list. No
-- attempt is older than its message, so the condition on `p.recorded_at` lets PostgreSQL skip older partitions.
-- include: attempted_messages_shown
WHERE t.endpoint_no = :of::bigint AND t.id < :near::text AND t.id >= :far::text AND t.number = 1
-- include: attempted_messages_filter
ORDER BY t.id DESC LIMIT :limit::integer

-- name: attempted_messages_back
-- include: attempted_messages_shown
WHERE t.endpoint_no = :of::bigint AND t.id > :near::text AND t.id <= :far::text AND t.number = 1
-- include: attempted_messages_filter
ORDER BY t.id LIMIT :limit::integer

-- part: lane_seen
-- :counted is the maximum number of deliveries to count. ORDER BY makes the planner use the indexes that begin with the
-- endpoint. Without it, if one lane has a long backlog, the planner would read the whole table for each idle lane.
-- `last_error` is the last error of the last two days, among the newest 20 attempts.
l.*, e.id AS endpoint_id, e.url, e.description, a.id AS app_id,
       (SELECT count(*) FROM (
          (SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state < 2
           ORDER BY d.due_at LIMIT :counted::integer)
          UNION ALL
          (SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state = 6
           ORDER BY d.ordering_key LIMIT :counted)
          LIMIT :counted) c) AS depth,
       (SELECT d.due_at FROM hookline.delivery d
        WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 ORDER BY d.due_at LIMIT 1) AS oldest_due,
       (SELECT coalesce('status ' || t.status_code, t.error)
                || CASE WHEN t.detail = '' THEN '' ELSE ': ' || t.detail END
        FROM (SELECT id, outcome, detail, status_code, error FROM hookline.attempt
              WHERE endpoint_no = l.endpoint_no AND recorded_at >= now() - interval '2 days'
              ORDER BY id DESC LIMIT 20) t
        WHERE t.outcome <> 'delivered' ORDER BY t.id DESC LIMIT 1) AS last_error

-- name: lane_page
SELECT e.no FROM hookline.application a JOIN hookline.endpoint e ON e.app_no = a.no
WHERE a.org_id = :org_id::text AND a.deleted_at IS NULL AND e.deleted_at IS NULL AND (:app_no::bigint IS NULL OR a.no = :app_no)
  AND e.id > :after::text COLLATE "C" AND (:url::text = '' OR position(:url in lower(e.url)) > 0)
  AND (:state::text IS NULL OR (
    SELECT CASE WHEN :state = 'sick' THEN s.state <> 'well' ELSE s.state = :state END FROM (
      SELECT CASE WHEN n.status = 1 THEN 'paused' WHEN n.status = 2 THEN 'disabled'
                  WHEN n.circuit = 1 THEN 'open' WHEN n.circuit = 2 THEN 'half_open'
                  WHEN n.held_until > now() THEN 'held' WHEN n.circuit = 3 THEN 'recovering'
                  WHEN n.failures > 0 THEN 'failing' WHEN n.pace IS NOT NULL THEN 'slowed' ELSE 'well' END AS state
      FROM hookline.lane n WHERE n.endpoint_no = e.no) s))
ORDER BY e.id LIMIT :limit::integer

-- name: lane_views
SELECT
-- include: lane_seen
FROM unnest(:nos::bigint[]) AS f (no)
JOIN hookline.lane l ON l.endpoint_no = f.no
JOIN hookline.endpoint e ON e.no = f.no
JOIN hookline.application a ON a.no = e.app_no
WHERE l.status < 3

-- name: lane_events
-- BETWEEN makes the planner use the index on (endpoint_no, id). With `=`, the order would be that of the primary key,
-- and the planner would read the events of all endpoints in that order.
SELECT * FROM hookline.lane_event WHERE endpoint_no BETWEEN :no::bigint AND :no
ORDER BY endpoint_no DESC, id DESC LIMIT :limit::integer

-- name: timeline
-- Ordered by id and not by time: the time of an event is the start of its transaction, and the transaction that started
-- first may be the last to change the lane.
SELECT * FROM hookline.lane_event WHERE (endpoint_no, id) < (:no::bigint, :iterator::bigint) AND endpoint_no >= :no
ORDER BY endpoint_no DESC, id DESC LIMIT :limit::integer

-- name: timeline_back
SELECT * FROM hookline.lane_event WHERE (endpoint_no, id) > (:no::bigint, :iterator::bigint) AND endpoint_no <= :no
ORDER BY endpoint_no, id LIMIT :limit::integer
