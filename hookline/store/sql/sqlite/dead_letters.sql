-- Dead letters and replay. A line that ends in `-- if :name` is removed if that value is None.

-- part: dead_of
-- A leading `+` prevents the use of an index for the condition. SQLite then reads an index in the order of the listing,
-- and needs no sort.
   AND +l.app_no IN (SELECT no FROM application WHERE org_id = :org_id) -- if :org_id
   AND l.app_no = :app_no -- if :app_no

-- part: dead_filter
   AND l.endpoint_no = :endpoint_no -- if :endpoint_no
   AND l.event_type = :event_type -- if :event_type
   AND l.reason = :reason -- if :reason
   AND l.died_at >= :since -- if :since
   AND l.died_at < :until -- if :until
   AND l.id IN (SELECT value FROM json_each(:ids)) -- if :ids

-- part: dead_resolved
   AND l.resolved_at IS NOT NULL -- if :is_resolved
   AND l.resolved_at IS NULL -- if :is_open

-- name: dead_letters
SELECT l.*, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
  FROM dead_letter l JOIN application a ON a.no = l.app_no JOIN endpoint e ON e.no = l.endpoint_no
 WHERE (l.died_at, l.id) < (:died_at, :dead_id)
   -- include: dead_of
   -- include: dead_filter
   -- include: dead_resolved
ORDER BY l.died_at DESC, l.id DESC LIMIT :limit;

-- name: dead_letters_back
SELECT l.*, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
  FROM dead_letter l JOIN application a ON a.no = l.app_no JOIN endpoint e ON e.no = l.endpoint_no
 WHERE (l.died_at, l.id) > (:died_at, :dead_id)
   -- include: dead_of
   -- include: dead_filter
   -- include: dead_resolved
ORDER BY l.died_at, l.id LIMIT :limit;

-- name: dead_letter
SELECT l.*, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
  FROM dead_letter l JOIN application a ON a.no = l.app_no JOIN endpoint e ON e.no = l.endpoint_no
 WHERE l.id = :dead_id;

-- name: dead_stats
SELECT l.reason AS reason, l.resolved_at IS NOT NULL AS resolved, count(*) AS many, min(l.died_at) AS oldest
  FROM dead_letter l WHERE l.id > 0
   -- include: dead_of
   -- include: dead_filter
GROUP BY 1, 2;

-- name: dead_stats_applications
SELECT a.org_id, a.id AS app_id, count(*) AS dead
  FROM dead_letter l JOIN application a ON a.no = l.app_no
 WHERE l.app_no > 0 AND l.resolved_at IS NULL
   -- include: dead_of
   -- include: dead_filter
GROUP BY l.app_no ORDER BY dead DESC, l.app_no LIMIT :max_rows;

-- name: dead_stats_pending
SELECT count(*) FROM delivery d
 WHERE d.trigger = 1 AND d.app_no > 0
   AND (:app_no IS NULL OR d.app_no = :app_no) AND (:endpoint_no IS NULL OR d.endpoint_no = :endpoint_no)
   AND (:event_type IS NULL OR d.event_type = :event_type)
   AND (:org_id IS NULL OR EXISTS (SELECT 1 FROM application a WHERE a.no = d.app_no AND a.org_id = :org_id));

-- name: dead_summary
SELECT g.endpoint_no, g.reason, g.dead, g.oldest, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
  FROM (SELECT app_no, endpoint_no, reason, count(*) AS dead, min(died_at) AS oldest
          FROM (SELECT l.app_no, l.endpoint_no, l.reason, l.died_at FROM dead_letter l
                 WHERE l.died_at > 0
   -- include: dead_of
   -- include: dead_filter
   -- include: dead_resolved
ORDER BY l.died_at DESC LIMIT :max_rows)
         GROUP BY app_no, endpoint_no, reason) g
  JOIN application a ON a.no = g.app_no JOIN endpoint e ON e.no = g.endpoint_no
 ORDER BY g.dead DESC, g.endpoint_no, g.reason;

-- name: dead_count
SELECT count(*) FROM (SELECT 1 FROM dead_letter l WHERE l.died_at > 0
   -- include: dead_of
   -- include: dead_filter
   -- include: dead_resolved
LIMIT :max_rows);

-- name: dead_applications
SELECT a.no FROM application a
 WHERE a.org_id = :org_id AND (:app_no IS NULL OR a.no = :app_no)
   AND EXISTS (SELECT 1 FROM dead_letter l WHERE l.app_no = a.no AND l.died_at > 0
   -- include: dead_filter
   -- include: dead_resolved
)
 ORDER BY a.no LIMIT :max_rows;

-- name: dead_attempts
SELECT t.*, e.id AS endpoint_id, e.url AS endpoint_url FROM attempt t JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.message_id = :message_id AND t.delivery_id = :dead_id ORDER BY t.number DESC, t.id DESC LIMIT :max_rows;

-- name: replay_find
SELECT l.id FROM dead_letter l
 WHERE l.died_at > 0
   -- include: dead_of
   -- include: dead_filter
   -- include: dead_resolved

   AND EXISTS (SELECT 1 FROM lane n WHERE n.endpoint_no = l.endpoint_no AND n.status < 2)
   AND EXISTS (SELECT 1 FROM message m WHERE m.seq = l.message_seq AND m.payload IS NOT NULL)
 ORDER BY l.died_at, l.id LIMIT :limit;

-- name: replay_open
INSERT INTO delivery (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, state, attempts, sent,
                      trigger, due_at, expires_at, last_status, policy, ordering_key)
SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type,
       CASE WHEN ordering_key IS NULL THEN 0 ELSE 6 END, 0, sent, 1, :now,
       :now + cast(round(coalesce(json_extract(policy, '$.max_age'), :max_age) * 1000000) AS integer),
       last_status, policy, ordering_key
  FROM dead_letter WHERE id IN (SELECT value FROM json_each(:ids));

-- name: replay_close
DELETE FROM dead_letter WHERE id IN (SELECT value FROM json_each(:ids));

-- name: resolve
UPDATE dead_letter SET resolved_at = :now, note = :text
 WHERE id IN (SELECT l.id FROM dead_letter l WHERE l.died_at > 0
   -- include: dead_of
   -- include: dead_filter
   AND l.resolved_at IS NULL

               ORDER BY l.died_at, l.id LIMIT :limit)
RETURNING id;

-- name: messages_in_range
-- The application's messages with ids in a range, and for each whether the endpoint has an open, a delivered or a dead
-- delivery of it.
SELECT m.id, m.created_at, m.event_type, m.channels, m.tags, m.payload IS NOT NULL AS whole,
       EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = m.id AND d.endpoint_no = :no) AS open,
       EXISTS (SELECT 1 FROM delivery_done d WHERE d.message_id = m.id AND d.endpoint_no = :no) AS delivered,
       (SELECT max(d.id) FROM dead_letter d WHERE d.message_id = m.id AND d.endpoint_no = :no) AS dead_id
  FROM message m
 WHERE m.app_no = :app_no AND m.id > :after AND m.id < :before AND (m.only_for IS NULL OR m.only_for = :no)
 ORDER BY m.id LIMIT :limit;

-- name: messages_chosen
SELECT m.seq, m.id, m.event_type, m.created_at, m.policy, m.ordering_key,
       max(:now, coalesce(m.deliver_at, 0)) AS due_at
  FROM message m WHERE m.app_no = :app_no AND m.id IN (SELECT value FROM json_each(:ids)) ORDER BY m.id;

-- name: resend_message
SELECT seq, id, event_type, created_at, policy, ordering_key, :now AS due_at FROM message
 WHERE id = :id AND app_no = :app_no AND payload IS NOT NULL;

-- name: replay_done
SELECT endpoint_no, count(*) AS count, min(id) AS first, :now AS at
  FROM delivery WHERE id IN (SELECT value FROM json_each(:ids)) GROUP BY endpoint_no;

-- name: deliveries_wake
-- Inserts a wake token for each lane of these deliveries. The token names their queues, so that a claim can make the
-- next delivery of each queue available.
INSERT INTO wake (app_no, endpoint_no, at, floor, keys)
SELECT app_no, endpoint_no, max(:now, min(due_at)), max(:now, min(due_at)), group_concat(json_quote(ordering_key))
       FILTER (WHERE ordering_key IS NOT NULL)
  FROM delivery WHERE id IN (SELECT value FROM json_each(:ids)) GROUP BY app_no, endpoint_no;

-- name: resolve_wake
-- Inserts a wake token for each lane of these dead letters. The token names the queues that they may have blocked.
INSERT INTO wake (app_no, endpoint_no, at, floor, keys)
SELECT app_no, endpoint_no, :now, :now, group_concat(json_quote(ordering_key))
  FROM dead_letter WHERE id IN (SELECT value FROM json_each(:ids)) AND ordering_key IS NOT NULL GROUP BY app_no, endpoint_no;

-- name: resolve_done
SELECT endpoint_no, count(*) AS count, min(id) AS first, :now AS at
  FROM dead_letter WHERE id IN (SELECT value FROM json_each(:ids)) GROUP BY endpoint_no;

-- name: delivery_manual
INSERT INTO delivery (app_no, endpoint_no, message_seq, message_at, message_id, event_type, trigger, due_at, expires_at, policy,
                      ordering_key, state)
VALUES (:app_no, :endpoint_no, :message_seq, :message_at, :message_id, :event_type, 1, :due_at, :due_at + :max_age, :policy,
        :ordering_key, :state)
RETURNING id;
