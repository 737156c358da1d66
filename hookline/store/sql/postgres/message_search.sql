-- Message search: in one application, in several, in a whole organization, or by the state of deliveries.

-- part: search_columns
       m.seq, m.id, m.app_no, a.id AS app_id, m.event_type, NULL::bytea AS payload, octet_length(m.payload) AS size,
       m.created_at, m.event_id, m.channels, m.tags, m.ordering_key, m.deliver_at, m.policy, m.trace

-- part: search_filter
-- OFFSET 0 makes the planner run each EXISTS once per message that is read. Otherwise the planner could join the
-- messages with the whole tables.
  AND (:after::timestamptz IS NULL OR m.created_at > :after) AND (:before::timestamptz IS NULL OR m.created_at < :before)
  AND (:event_types::text[] IS NULL OR m.event_type = ANY (:event_types)) AND (:channel::text IS NULL OR :channel = ANY (m.channels))
  AND (:tag::text IS NULL OR :tag = ANY (m.tags))
  AND CASE WHEN :state::text IN ('delivered', 'none')
           THEN NOT EXISTS (SELECT FROM hookline.delivery d WHERE d.message_id = m.id OFFSET 0)
                AND NOT EXISTS (SELECT FROM hookline.dead_letter d WHERE d.message_id = m.id OFFSET 0)
                AND (:state = 'delivered') = EXISTS (SELECT FROM hookline.delivery_done d
                                                  WHERE d.message_id = m.id AND d.finished_at >= m.created_at OFFSET 0)
           ELSE TRUE END

-- part: search_theirs
-- Selects the messages of the open deliveries or dead letters in `seen`.
       SELECT DISTINCT s.message_id, s.message_at, s.message_seq FROM seen s
       JOIN hookline.application a ON a.no = s.app_no AND a.org_id = :org_id::text AND a.deleted_at IS NULL
       WHERE :app_no::bigint IS NULL OR s.app_no = :app_no

-- part: search_of_theirs
SELECT
-- include: search_columns
FROM theirs t
CROSS JOIN LATERAL (
  SELECT * FROM hookline.message m WHERE m.created_at = t.message_at AND m.seq = t.message_seq OFFSET 0) m
JOIN hookline.application a ON a.no = m.app_no
WHERE TRUE
  -- include: search_filter

-- name: search_apps
SELECT no FROM hookline.application WHERE org_id = :org_id AND deleted_at IS NULL ORDER BY id LIMIT :max_rows

-- name: search_app
SELECT TRUE FROM hookline.application WHERE org_id = :org_id AND no = :app_no AND deleted_at IS NULL

-- name: search_end
-- Scans :stride messages of each application in :apps, and returns the highest id at which one of these scans ends.
-- `search` gets this id as :far, so it reads at most :stride messages of each application. No result: each application
-- has fewer than :stride messages left.
SELECT max(e.id) FROM unnest(:apps::bigint[]) AS p (app_no)
CROSS JOIN LATERAL (
  SELECT m.id FROM hookline.message m WHERE m.app_no = p.app_no AND m.id < :near::text AND m.id >= :far::text
  ORDER BY m.id DESC OFFSET :stride::integer - 1 LIMIT 1) e

-- name: search
SELECT
-- include: search_columns
FROM unnest(:apps::bigint[]) AS p (app_no)
CROSS JOIN LATERAL (
  SELECT m.* FROM hookline.message m
  WHERE m.app_no = p.app_no AND m.id < :near::text AND m.id >= :far::text
  -- include: search_filter
  ORDER BY m.id DESC LIMIT :limit::integer) m
JOIN hookline.application a ON a.no = m.app_no
ORDER BY m.id DESC LIMIT :limit::integer

-- name: search_all_end
-- Scans :stride messages of all applications together. Returns the id at which the scan ends.
SELECT m.id FROM hookline.message m WHERE m.id < :near::text AND m.id >= :far::text ORDER BY m.id DESC OFFSET :stride::integer - 1 LIMIT 1

-- name: search_all
SELECT
-- include: search_columns
FROM hookline.message m
JOIN hookline.application a ON a.no = m.app_no AND a.org_id = :org_id::text AND a.deleted_at IS NULL
WHERE m.id < :near::text AND m.id >= :far::text
  -- include: search_filter
ORDER BY m.id DESC LIMIT :limit::integer

-- name: search_end_back
SELECT min(e.id) FROM unnest(:apps::bigint[]) AS p (app_no)
CROSS JOIN LATERAL (
  SELECT m.id FROM hookline.message m WHERE m.app_no = p.app_no AND m.id > :near::text AND m.id <= :far::text
  ORDER BY m.id OFFSET :stride::integer - 1 LIMIT 1) e

-- name: search_back
SELECT
-- include: search_columns
FROM unnest(:apps::bigint[]) AS p (app_no)
CROSS JOIN LATERAL (
  SELECT m.* FROM hookline.message m
  WHERE m.app_no = p.app_no AND m.id > :near::text AND m.id <= :far::text
  -- include: search_filter
  ORDER BY m.id LIMIT :limit::integer) m
JOIN hookline.application a ON a.no = m.app_no
ORDER BY m.id LIMIT :limit::integer

-- name: search_all_end_back
SELECT m.id FROM hookline.message m WHERE m.id > :near::text AND m.id <= :far::text ORDER BY m.id OFFSET :stride::integer - 1 LIMIT 1

-- name: search_all_back
SELECT
-- include: search_columns
FROM hookline.message m
JOIN hookline.application a ON a.no = m.app_no AND a.org_id = :org_id::text AND a.deleted_at IS NULL
WHERE m.id > :near::text AND m.id <= :far::text
  -- include: search_filter
ORDER BY m.id LIMIT :limit::integer

-- name: search_open_end
-- Scans :stride open deliveries of all applications together. Returns the message id at which the scan ends.
SELECT message_id FROM hookline.delivery
WHERE message_id < :near::text AND message_id >= :far::text
ORDER BY message_id DESC OFFSET :stride::integer - 1 LIMIT 1

-- name: search_open
WITH seen AS MATERIALIZED (
       SELECT message_id, message_at, message_seq, app_no FROM hookline.delivery
       WHERE message_id < :near::text AND message_id >= :far::text
       ORDER BY message_id DESC LIMIT :stride::integer),
     theirs AS MATERIALIZED (
       -- include: search_theirs
       ORDER BY s.message_id DESC)
-- include: search_of_theirs
ORDER BY t.message_id DESC LIMIT :limit::integer

-- name: search_dead_end
SELECT message_id FROM hookline.dead_letter
WHERE resolved_at IS NULL AND message_id < :near::text AND message_id >= :far::text
ORDER BY message_id DESC OFFSET :stride::integer - 1 LIMIT 1

-- name: search_dead
WITH seen AS MATERIALIZED (
       SELECT message_id, message_at, message_seq, app_no FROM hookline.dead_letter
       WHERE resolved_at IS NULL AND message_id < :near::text AND message_id >= :far::text
       ORDER BY message_id DESC LIMIT :stride::integer),
     theirs AS MATERIALIZED (
       -- include: search_theirs
       ORDER BY s.message_id DESC)
-- include: search_of_theirs
ORDER BY t.message_id DESC LIMIT :limit::integer

-- name: search_open_end_back
SELECT message_id FROM hookline.delivery
WHERE message_id > :near::text AND message_id <= :far::text
ORDER BY message_id OFFSET :stride::integer - 1 LIMIT 1

-- name: search_open_back
WITH seen AS MATERIALIZED (
       SELECT message_id, message_at, message_seq, app_no FROM hookline.delivery
       WHERE message_id > :near::text AND message_id <= :far::text
       ORDER BY message_id LIMIT :stride::integer),
     theirs AS MATERIALIZED (
       -- include: search_theirs
       ORDER BY s.message_id)
-- include: search_of_theirs
ORDER BY t.message_id LIMIT :limit::integer

-- name: search_dead_end_back
SELECT message_id FROM hookline.dead_letter
WHERE resolved_at IS NULL AND message_id > :near::text AND message_id <= :far::text
ORDER BY message_id OFFSET :stride::integer - 1 LIMIT 1

-- name: search_dead_back
WITH seen AS MATERIALIZED (
       SELECT message_id, message_at, message_seq, app_no FROM hookline.dead_letter
       WHERE resolved_at IS NULL AND message_id > :near::text AND message_id <= :far::text
       ORDER BY message_id LIMIT :stride::integer),
     theirs AS MATERIALIZED (
       -- include: search_theirs
       ORDER BY s.message_id)
-- include: search_of_theirs
ORDER BY t.message_id LIMIT :limit::integer

-- name: search_by_event_id
SELECT
-- include: search_columns
FROM hookline.application a
JOIN hookline.event_id e ON e.app_no = a.no AND e.event_id = :ref::text
JOIN hookline.message m ON m.created_at = e.created_at AND m.id = e.message_id AND m.app_no = e.app_no
WHERE a.org_id = :org_id::text AND a.deleted_at IS NULL AND (:app_no::bigint IS NULL OR a.no = :app_no)
ORDER BY m.id DESC LIMIT :max_rows::integer

-- name: search_by_id
SELECT
-- include: search_columns
FROM hookline.message m JOIN hookline.application a ON a.no = m.app_no
WHERE m.id = :ref::text AND m.created_at >= :since::timestamptz AND m.created_at <= :until::timestamptz
  AND a.org_id = :org_id::text AND a.deleted_at IS NULL AND (:app_no::bigint IS NULL OR a.no = :app_no)

-- name: search_states
-- Counts deliveries of the messages :ids by state. :instants has the time at which each message was accepted. No
-- delivery of a message finishes before that time.
SELECT x.id AS message_id, s.state, s.held, count(*)::integer AS number
FROM unnest(:ids::text[], :instants::timestamptz[]) AS x (id, at)
CROSS JOIN LATERAL (
  SELECT d.state::integer AS state,
-- include: keeps
         AS held
  FROM hookline.delivery d LEFT JOIN hookline.lane n ON n.endpoint_no = d.endpoint_no WHERE d.message_id = x.id
  UNION ALL
  SELECT 3, false FROM hookline.delivery_done WHERE message_id = x.id AND finished_at >= x.at
  UNION ALL
  SELECT CASE WHEN resolved_at IS NULL THEN 4 ELSE 5 END, false FROM hookline.dead_letter WHERE message_id = x.id) s
GROUP BY x.id, s.state, s.held
