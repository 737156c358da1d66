-- Dead letters and replay. A filter that is not set is NULL. PostgreSQL makes a new query plan for each call, so
-- an unused filter costs nothing.

-- part: dead_filter
  AND (:endpoint_no::bigint IS NULL OR l.endpoint_no = :endpoint_no) AND (:event_type::text IS NULL OR l.event_type = :event_type)
  AND (:reason::text IS NULL OR l.reason = :reason) AND (:since::timestamptz IS NULL OR l.died_at >= :since)
  AND (:until::timestamptz IS NULL OR l.died_at < :until) AND (:ids::bigint[] IS NULL OR l.id = ANY (:ids))

-- part: dead_where
WHERE (:org_id::text IS NULL OR a.org_id = :org_id) AND (:app_no::bigint IS NULL OR l.app_no = :app_no)
  -- include: dead_filter

-- part: dead_resolved
  AND CASE WHEN :resolved::boolean IS NULL THEN true WHEN :resolved THEN l.resolved_at IS NOT NULL ELSE l.resolved_at IS NULL END

-- part: dead_shown
SELECT l.*, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
FROM hookline.dead_letter l
JOIN hookline.application a ON a.no = l.app_no
JOIN hookline.endpoint e ON e.no = l.endpoint_no

-- name: dead_letters
-- include: dead_shown
-- include: dead_where
  -- include: dead_resolved
  AND (l.died_at, l.id) < (:died_at::timestamptz, :dead_id::bigint)
ORDER BY l.died_at DESC, l.id DESC LIMIT :limit::integer

-- name: dead_letters_back
-- include: dead_shown
-- include: dead_where
  -- include: dead_resolved
  AND (l.died_at, l.id) > (:died_at::timestamptz, :dead_id::bigint)
ORDER BY l.died_at, l.id LIMIT :limit::integer

-- name: dead_letter
-- include: dead_shown
WHERE l.id = :dead_id

-- name: dead_stats
SELECT l.reason, l.resolved_at IS NOT NULL AS resolved, count(*) AS many, min(l.died_at) AS oldest
FROM hookline.dead_letter l
JOIN hookline.application a ON a.no = l.app_no
-- include: dead_where
  -- include: dead_resolved
GROUP BY 1, 2

-- name: dead_stats_applications
SELECT a.org_id, a.id AS app_id, count(*) AS dead
FROM hookline.dead_letter l
JOIN hookline.application a ON a.no = l.app_no
-- include: dead_where
  AND :resolved::boolean IS NULL AND l.resolved_at IS NULL
GROUP BY a.no ORDER BY dead DESC, a.no LIMIT :max_rows::integer

-- name: dead_stats_pending
SELECT count(*) FROM hookline.delivery d
JOIN hookline.application a ON a.no = d.app_no
WHERE d.trigger = 1 AND (:org_id::text IS NULL OR a.org_id = :org_id) AND (:app_no::bigint IS NULL OR d.app_no = :app_no)
  AND (:endpoint_no::bigint IS NULL OR d.endpoint_no = :endpoint_no) AND (:event_type::text IS NULL OR d.event_type = :event_type)

-- name: dead_summary
WITH l AS MATERIALIZED (
       SELECT l.app_no, l.endpoint_no, l.reason, l.died_at FROM hookline.dead_letter l
       JOIN hookline.application a ON a.no = l.app_no
       -- include: dead_where
         -- include: dead_resolved
       ORDER BY l.died_at DESC, l.id DESC LIMIT :max_rows::integer),
     g AS (SELECT app_no, endpoint_no, reason, count(*) AS dead, min(died_at) AS oldest FROM l GROUP BY 1, 2, 3)
SELECT g.endpoint_no, g.reason, g.dead, g.oldest, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
FROM g JOIN hookline.application a ON a.no = g.app_no JOIN hookline.endpoint e ON e.no = g.endpoint_no
ORDER BY g.dead DESC, g.endpoint_no, g.reason

-- name: dead_count
SELECT count(*) FROM (
       SELECT FROM hookline.dead_letter l
       JOIN hookline.application a ON a.no = l.app_no
       -- include: dead_where
         -- include: dead_resolved
       LIMIT :max_rows::integer) l

-- name: dead_applications
SELECT a.no FROM hookline.application a
WHERE a.org_id = :org_id::text AND (:app_no::bigint IS NULL OR a.no = :app_no)
  AND EXISTS (SELECT FROM hookline.dead_letter l
       WHERE l.app_no = a.no
         -- include: dead_filter
         -- include: dead_resolved
       )
ORDER BY a.no LIMIT :max_rows::integer

-- name: dead_attempts
-- No attempt is older than the message, so PostgreSQL can skip older partitions.
SELECT t.*, e.id AS endpoint_id, e.url AS endpoint_url FROM hookline.attempt t JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.message_id = :message_id::text AND t.delivery_id = :dead_id::bigint AND t.recorded_at >= :accepted_at::timestamptz
ORDER BY t.number DESC, t.id DESC LIMIT :max_rows::integer

-- name: replay
-- The delivery keeps its id and so its history. Subqueries look up the lane and the message of each dead
-- letter. With joins and many dead letters, the planner would read all messages.
WITH x AS MATERIALIZED (
       SELECT l.id FROM hookline.dead_letter l
       JOIN hookline.application a ON a.no = l.app_no
       -- include: dead_where
         -- include: dead_resolved
         AND (SELECT n.status < 2 FROM hookline.lane n WHERE n.endpoint_no = l.endpoint_no)
         AND (SELECT m.payload IS NOT NULL FROM hookline.message m WHERE m.created_at = l.message_at AND m.seq = l.message_seq)
       ORDER BY l.died_at, l.id LIMIT :limit::integer
       FOR UPDATE OF l SKIP LOCKED),
     gone AS (DELETE FROM hookline.dead_letter WHERE id = ANY (ARRAY(SELECT id FROM x)) RETURNING *),
     d AS (
       INSERT INTO hookline.delivery (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, state, attempts,
                                      sent, trigger, due_at, expires_at, last_status, policy, ordering_key)
       OVERRIDING SYSTEM VALUE
       SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type,
              CASE WHEN ordering_key IS NULL THEN 0 ELSE 6 END, 0, sent, 1, now(),
              now() + make_interval(secs => coalesce((policy ->> 'max_age')::float8, :max_age::float8)), last_status, policy,
              ordering_key
       FROM gone ORDER BY id
       RETURNING id, app_no, endpoint_no, ordering_key),
     woken AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT app_no, endpoint_no, now(), now(), string_agg(to_json(ordering_key)::text, ',') FROM d GROUP BY app_no, endpoint_no)
SELECT endpoint_no, count(*) AS count, min(id) AS first, now() AS at, (SELECT hookline.announce()) FROM d GROUP BY endpoint_no

-- name: resolve
WITH x AS MATERIALIZED (
       SELECT l.id FROM hookline.dead_letter l
       JOIN hookline.application a ON a.no = l.app_no
       -- include: dead_where
         AND :resolved::boolean IS NULL AND l.resolved_at IS NULL
       ORDER BY l.died_at, l.id LIMIT :limit::integer
       FOR UPDATE OF l SKIP LOCKED),
     closed AS (
       UPDATE hookline.dead_letter SET resolved_at = now(), note = :text::text WHERE id = ANY (ARRAY(SELECT id FROM x))
       RETURNING id, app_no, endpoint_no, ordering_key),
     turns AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT app_no, endpoint_no, now(), now(), string_agg(to_json(ordering_key)::text, ',') FROM closed
       WHERE ordering_key IS NOT NULL GROUP BY app_no, endpoint_no
       RETURNING 1)
SELECT endpoint_no, count(*) AS count, min(id) AS first, now() AS at, (SELECT hookline.announce() FROM turns LIMIT 1)
FROM closed GROUP BY endpoint_no

-- name: messages_in_range
-- The application's messages in a range, and the state of each at the endpoint.
WITH m AS MATERIALIZED (
       SELECT m.id, m.created_at, m.event_type, m.channels, m.tags, m.payload IS NOT NULL AS whole
       FROM hookline.message m
       WHERE m.app_no = :app_no::bigint AND m.id > :after::text AND m.id < :before::text
         AND m.created_at >= :since::timestamptz AND m.created_at < :until::timestamptz AND (m.only_for IS NULL OR m.only_for = :no)
       ORDER BY m.id LIMIT :limit::integer)
SELECT m.*,
       EXISTS (SELECT FROM hookline.delivery d WHERE d.message_id = m.id AND d.endpoint_no = :no::bigint) AS open,
       EXISTS (SELECT FROM hookline.delivery_done d
               WHERE d.message_id = m.id AND d.endpoint_no = :no AND d.finished_at >= :since) AS delivered,
       (SELECT max(d.id) FROM hookline.dead_letter d WHERE d.message_id = m.id AND d.endpoint_no = :no) AS dead_id
FROM m ORDER BY m.id

-- name: messages_deliver
-- The caller must hold the lane's lock. Otherwise two concurrent calls could create two deliveries of one message.
WITH m AS MATERIALIZED (
       SELECT m.seq, m.id, m.app_no, m.event_type, m.created_at, m.policy, greatest(now(), m.deliver_at) AS due_at, e.no,
              e.policy AS endpoint_policy, t.policy AS type_policy, q.key
       FROM hookline.endpoint e
       JOIN hookline.application a ON a.no = e.app_no
       JOIN hookline.message m ON m.app_no = e.app_no
       LEFT JOIN hookline.event_type t ON t.org_id = a.org_id AND t.name = m.event_type
       CROSS JOIN LATERAL (SELECT CASE e.ordering WHEN 'key' THEN m.ordering_key WHEN 'fifo' THEN '' END) q (key)
       WHERE e.no = :no::bigint AND e.deleted_at IS NULL AND m.id = ANY (:ids::text[])
         AND m.created_at >= :since::timestamptz AND m.created_at < :until::timestamptz),
     d AS (
       INSERT INTO hookline.delivery (app_no, endpoint_no, message_seq, message_at, message_id, event_type, trigger, due_at,
                                      expires_at, policy, ordering_key, state)
       SELECT app_no, no, seq, created_at, id, event_type, 1, due_at,
              due_at + make_interval(secs => coalesce((policy ->> 'max_age')::float8, (endpoint_policy ->> 'max_age')::float8,
                                                     (type_policy ->> 'max_age')::float8, :max_age::float8)),
              CASE WHEN policy IS NULL AND endpoint_policy IS NULL AND type_policy IS NULL THEN NULL
                   ELSE coalesce(type_policy, '{}') || coalesce(endpoint_policy, '{}') || coalesce(policy, '{}') END,
              key, CASE WHEN key IS NULL THEN 0 ELSE 6 END
       FROM m ORDER BY id
       RETURNING app_no, endpoint_no, due_at, ordering_key),
     woken AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT app_no, endpoint_no, min(due_at), min(due_at), string_agg(to_json(ordering_key)::text, ',')
       FROM d GROUP BY app_no, endpoint_no)
SELECT count(*), (SELECT hookline.announce()) FROM d

-- name: resend
WITH d AS (
       INSERT INTO hookline.delivery (app_no, endpoint_no, message_seq, message_at, message_id, event_type, trigger, due_at,
                                      expires_at, policy, ordering_key, state)
       SELECT m.app_no, e.no, m.seq, m.created_at, m.id, m.event_type, 1, now(),
              now() + make_interval(secs => coalesce((m.policy ->> 'max_age')::float8, (e.policy ->> 'max_age')::float8,
                                                     (t.policy ->> 'max_age')::float8, :max_age::float8)),
              CASE WHEN m.policy IS NULL AND e.policy IS NULL AND t.policy IS NULL THEN NULL
                   ELSE coalesce(t.policy, '{}') || coalesce(e.policy, '{}') || coalesce(m.policy, '{}') END,
              q.key, CASE WHEN q.key IS NULL THEN 0 ELSE 6 END
       FROM hookline.endpoint e
       JOIN hookline.application a ON a.no = e.app_no
       JOIN hookline.message m ON m.app_no = e.app_no AND m.id = :message_id::text
       LEFT JOIN hookline.event_type t ON t.org_id = a.org_id AND t.name = m.event_type
       CROSS JOIN LATERAL (SELECT CASE e.ordering WHEN 'key' THEN m.ordering_key WHEN 'fifo' THEN '' END) q (key)
       WHERE e.no = :no::bigint AND e.deleted_at IS NULL AND m.payload IS NOT NULL
         AND m.created_at >= :since::timestamptz AND m.created_at <= :until::timestamptz
       LIMIT 1
       RETURNING id, app_no, endpoint_no, ordering_key),
     woken AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT app_no, endpoint_no, now(), now(), to_json(ordering_key)::text FROM d)
SELECT id, hookline.announce() FROM d
