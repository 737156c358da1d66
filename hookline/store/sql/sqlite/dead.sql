-- Dead letters and replay. `{where}` is filled with the conditions of `dead.py`, never with a caller's words.

-- name: dead_letters
SELECT l.*, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
  FROM dead_letter l JOIN application a ON a.no = l.app_no JOIN endpoint e ON e.no = l.endpoint_no
 WHERE l.id < :iterator AND {where} ORDER BY l.id DESC LIMIT :limit;

-- name: dead_letters_back
SELECT l.*, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
  FROM dead_letter l JOIN application a ON a.no = l.app_no JOIN endpoint e ON e.no = l.endpoint_no
 WHERE l.id > :iterator AND {where} ORDER BY l.id LIMIT :limit;

-- name: dead_letter
SELECT l.*, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
  FROM dead_letter l JOIN application a ON a.no = l.app_no JOIN endpoint e ON e.no = l.endpoint_no
 WHERE l.id = ?;

-- name: dead_stats
SELECT l.reason AS reason, l.resolved_at IS NOT NULL AS resolved, count(*) AS many, min(l.died_at) AS oldest
  FROM dead_letter l WHERE l.id > 0 AND {where} GROUP BY 1, 2;

-- name: replay_find
SELECT l.id, l.endpoint_no FROM dead_letter l
 WHERE l.id > 0 AND {where}
   AND EXISTS (SELECT 1 FROM lane n WHERE n.endpoint_no = l.endpoint_no AND n.status < 2)
   AND EXISTS (SELECT 1 FROM message m WHERE m.seq = l.message_seq AND m.payload IS NOT NULL)
 ORDER BY l.id LIMIT :limit;

-- name: replay_open
INSERT INTO delivery (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, state, attempts, sent,
                      trigger, due_at, expires_at, last_status, policy)
SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, 0, 0, sent, 1, :now,
       :now + cast(round(coalesce(json_extract(policy, '$.max_age'), :max_age) * 1000000) AS integer),
       last_status, policy
  FROM dead_letter WHERE id IN (SELECT value FROM json_each(:ids));

-- name: replay_close
DELETE FROM dead_letter WHERE id IN (SELECT value FROM json_each(?));

-- name: resolve
UPDATE dead_letter SET resolved_at = :now, note = :note
 WHERE id IN (SELECT l.id FROM dead_letter l WHERE l.id > 0 AND {where}
               ORDER BY l.id LIMIT :limit);

-- name: missing_find
SELECT m.seq, m.id, m.event_type, m.channels, m.deliver_at, m.policy, m.created_at
  FROM message m INDEXED BY message_age
 WHERE m.created_at >= :since AND m.created_at < :until AND (m.created_at, m.seq) > (:after_at, :after_seq)
   AND m.app_no = :app_no AND m.payload IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = m.id AND d.endpoint_no = :no)
   AND NOT EXISTS (SELECT 1 FROM delivery_done d WHERE d.message_id = m.id AND d.endpoint_no = :no)
   AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.message_id = m.id AND d.endpoint_no = :no)
 ORDER BY m.created_at, m.seq LIMIT :limit;

-- name: missing_still
SELECT NOT EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = :id AND d.endpoint_no = :no)
   AND NOT EXISTS (SELECT 1 FROM delivery_done d WHERE d.message_id = :id AND d.endpoint_no = :no)
   AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.message_id = :id AND d.endpoint_no = :no)
   AND EXISTS (SELECT 1 FROM message m WHERE m.seq = :seq);

-- name: resend_message
SELECT seq, id, event_type, created_at, deliver_at, policy FROM message WHERE id = ? AND app_no = ? AND payload IS NOT NULL;
