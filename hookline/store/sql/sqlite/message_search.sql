-- Message search: in one application, in several, in a whole organization, or by the state of deliveries.

-- part: search_columns
       m.seq, m.id, m.app_no, a.id AS app_id, m.event_type, NULL AS payload, length(m.payload) AS size,
       m.created_at, m.event_id, m.channels, m.tags, m.ordering_key, m.deliver_at, m.policy, m.trace

-- part: search_filter
   AND (:after IS NULL OR m.created_at > :after) AND (:before IS NULL OR m.created_at < :before)
   AND (:event_types IS NULL OR m.event_type IN (SELECT value FROM json_each(:event_types)))
   AND (:channel IS NULL OR :channel IN (SELECT value FROM json_each(m.channels)))
   AND (:tag IS NULL OR :tag IN (SELECT value FROM json_each(m.tags)))
   AND CASE WHEN :state IN ('delivered', 'none')
            THEN NOT EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = m.id)
                 AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.message_id = m.id)
                 AND (:state = 'delivered') = EXISTS (SELECT 1 FROM delivery_done d WHERE d.message_id = m.id)
            ELSE TRUE END

-- part: search_of_theirs
-- Joins the messages of the deliveries or dead letters in t.
  CROSS JOIN message m ON m.seq = t.message_seq
  CROSS JOIN application a ON a.no = m.app_no AND a.org_id = :org_id AND a.deleted_at IS NULL
 WHERE TRUE
   -- include: search_filter

-- name: search_apps
SELECT no FROM application WHERE org_id = :org_id AND deleted_at IS NULL ORDER BY id LIMIT :max_rows;

-- name: search_app
SELECT 1 FROM application WHERE org_id = :org_id AND no = :app_no AND deleted_at IS NULL;

-- name: search_end
-- For each application in :apps, finds the id at which a scan of :stride messages ends, newest first. The scan counts
-- all messages, whether they match the filter or not. Returns the highest of these ids, or NULL if no application has
-- :stride messages left.
SELECT max(id) AS id FROM (
    SELECT (SELECT m.id FROM message m WHERE m.app_no = p.value AND m.id < :near AND m.id >= :far
             ORDER BY m.id DESC LIMIT 1 OFFSET :stride - 1) AS id
      FROM json_each(:apps) p);

-- name: search
SELECT
-- include: search_columns
  FROM json_each(:apps) p
  CROSS JOIN message m ON m.seq IN (
    SELECT m.seq FROM message m
     WHERE m.app_no = p.value AND m.id < :near AND m.id >= :far
   -- include: search_filter
     ORDER BY m.id DESC LIMIT :limit)
  JOIN application a ON a.no = m.app_no
 ORDER BY m.id DESC LIMIT :limit;

-- name: search_all_end
-- The id at which a scan of :stride messages of all applications ends. No result: fewer than :stride messages are left.
SELECT m.id FROM message m WHERE m.id < :near AND m.id >= :far ORDER BY m.id DESC LIMIT 1 OFFSET :stride - 1;

-- name: search_all
SELECT
-- include: search_columns
  FROM message m CROSS JOIN application a ON a.no = m.app_no AND a.org_id = :org_id AND a.deleted_at IS NULL
 WHERE m.id < :near AND m.id >= :far
   -- include: search_filter
 ORDER BY m.id DESC LIMIT :limit;

-- name: search_open_end
-- The message id at which a scan of :stride open deliveries of all applications ends. No result: fewer than :stride are
-- left.
SELECT message_id AS id FROM delivery WHERE message_id < :near AND message_id >= :far ORDER BY message_id DESC LIMIT 1 OFFSET :stride - 1;

-- name: search_dead_end
SELECT message_id AS id FROM dead_letter
 WHERE resolved_at IS NULL AND message_id < :near AND message_id >= :far ORDER BY message_id DESC LIMIT 1 OFFSET :stride - 1;

-- name: search_open
SELECT
-- include: search_columns
  FROM (SELECT DISTINCT message_id, message_seq FROM (
          SELECT message_id, message_seq, app_no FROM delivery
           WHERE message_id < :near AND message_id >= :far ORDER BY message_id DESC LIMIT :stride)
         WHERE :app_no IS NULL OR app_no = :app_no
         ORDER BY message_id DESC LIMIT :stride) t
  -- include: search_of_theirs
 ORDER BY t.message_id DESC LIMIT :limit;

-- name: search_dead
SELECT
-- include: search_columns
  FROM (SELECT DISTINCT message_id, message_seq FROM (
          SELECT message_id, message_seq, app_no FROM dead_letter
           WHERE resolved_at IS NULL AND message_id < :near AND message_id >= :far ORDER BY message_id DESC LIMIT :stride)
         WHERE :app_no IS NULL OR app_no = :app_no
         ORDER BY message_id DESC LIMIT :stride) t
  -- include: search_of_theirs
 ORDER BY t.message_id DESC LIMIT :limit;

-- name: search_end_back
SELECT min(id) AS id FROM (
    SELECT (SELECT m.id FROM message m WHERE m.app_no = p.value AND m.id > :near AND m.id <= :far
             ORDER BY m.id LIMIT 1 OFFSET :stride - 1) AS id
      FROM json_each(:apps) p);

-- name: search_back
SELECT
-- include: search_columns
  FROM json_each(:apps) p
  CROSS JOIN message m ON m.seq IN (
    SELECT m.seq FROM message m
     WHERE m.app_no = p.value AND m.id > :near AND m.id <= :far
   -- include: search_filter
     ORDER BY m.id LIMIT :limit)
  JOIN application a ON a.no = m.app_no
 ORDER BY m.id LIMIT :limit;

-- name: search_all_end_back
SELECT m.id FROM message m WHERE m.id > :near AND m.id <= :far ORDER BY m.id LIMIT 1 OFFSET :stride - 1;

-- name: search_all_back
SELECT
-- include: search_columns
  FROM message m CROSS JOIN application a ON a.no = m.app_no AND a.org_id = :org_id AND a.deleted_at IS NULL
 WHERE m.id > :near AND m.id <= :far
   -- include: search_filter
 ORDER BY m.id LIMIT :limit;

-- name: search_open_end_back
SELECT message_id AS id FROM delivery WHERE message_id > :near AND message_id <= :far ORDER BY message_id LIMIT 1 OFFSET :stride - 1;

-- name: search_dead_end_back
SELECT message_id AS id FROM dead_letter
 WHERE resolved_at IS NULL AND message_id > :near AND message_id <= :far ORDER BY message_id LIMIT 1 OFFSET :stride - 1;

-- name: search_open_back
SELECT
-- include: search_columns
  FROM (SELECT DISTINCT message_id, message_seq FROM (
          SELECT message_id, message_seq, app_no FROM delivery
           WHERE message_id > :near AND message_id <= :far ORDER BY message_id LIMIT :stride)
         WHERE :app_no IS NULL OR app_no = :app_no
         ORDER BY message_id LIMIT :stride) t
  -- include: search_of_theirs
 ORDER BY t.message_id LIMIT :limit;

-- name: search_dead_back
SELECT
-- include: search_columns
  FROM (SELECT DISTINCT message_id, message_seq FROM (
          SELECT message_id, message_seq, app_no FROM dead_letter
           WHERE resolved_at IS NULL AND message_id > :near AND message_id <= :far ORDER BY message_id LIMIT :stride)
         WHERE :app_no IS NULL OR app_no = :app_no
         ORDER BY message_id LIMIT :stride) t
  -- include: search_of_theirs
 ORDER BY t.message_id LIMIT :limit;

-- name: search_by_event_id
SELECT
-- include: search_columns
  FROM application a
  CROSS JOIN event_id e ON e.app_no = a.no AND e.event_id = :ref
  CROSS JOIN message m ON m.id = e.message_id AND m.app_no = e.app_no
 WHERE a.org_id = :org_id AND a.deleted_at IS NULL AND (:app_no IS NULL OR a.no = :app_no)
 ORDER BY m.id DESC LIMIT :max_rows;

-- name: search_by_id
SELECT
-- include: search_columns
  FROM message m CROSS JOIN application a ON a.no = m.app_no
 WHERE m.id = :ref AND a.org_id = :org_id AND a.deleted_at IS NULL AND (:app_no IS NULL OR a.no = :app_no);

-- name: search_states
SELECT message_id, state, held, count(*) AS number FROM (
    SELECT d.message_id, d.state,
-- include: keeps
           AS held
      FROM delivery d LEFT JOIN lane n ON n.endpoint_no = d.endpoint_no
     WHERE d.message_id IN (SELECT value FROM json_each(:ids))
    UNION ALL
    SELECT message_id, 3, 0 FROM delivery_done WHERE message_id IN (SELECT value FROM json_each(:ids))
    UNION ALL
    SELECT message_id, CASE WHEN resolved_at IS NULL THEN 4 ELSE 5 END, 0 FROM dead_letter
     WHERE message_id IN (SELECT value FROM json_each(:ids)))
 GROUP BY message_id, state, held;
