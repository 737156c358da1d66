-- Listings. A scan follows an index from :near, which is excluded, to :far, which is included. A filter that is not
-- set is NULL.

-- name: message_by_event_id
SELECT m.*, a.id AS app_id
  FROM event_id e JOIN message m ON m.id = e.message_id AND m.app_no = e.app_no JOIN application a ON a.no = m.app_no
 WHERE e.app_no = :app_no AND e.event_id = :ref;

-- part: message_shown
SELECT m.seq, m.id, m.app_no, a.id AS app_id, m.event_type, NULL AS payload, length(m.payload) AS size, m.created_at,
       m.event_id, m.channels, m.tags, m.ordering_key, m.deliver_at, m.policy, m.trace
  FROM message m JOIN application a ON a.no = m.app_no

-- part: messages_filter
   AND (:after IS NULL OR m.created_at > :after) AND (:before IS NULL OR m.created_at < :before)
   AND (:event_types IS NULL OR m.event_type IN (SELECT value FROM json_each(:event_types)))
   AND (:channel IS NULL OR :channel IN (SELECT value FROM json_each(m.channels)))
   AND (:tag IS NULL OR :tag IN (SELECT value FROM json_each(m.tags)))

-- name: messages
-- include: message_shown
 WHERE m.app_no = :of AND m.id < :near AND m.id >= :far
-- include: messages_filter
 ORDER BY m.id DESC LIMIT :limit;

-- name: messages_back
-- include: message_shown
 WHERE m.app_no = :of AND m.id > :near AND m.id <= :far
-- include: messages_filter
 ORDER BY m.id LIMIT :limit;

-- name: messages_end
-- The id at which a scan of :stride rows ends. The scan counts all rows, whether they match the filter or not. No
-- result: fewer than :stride rows are left.
SELECT m.id FROM message m WHERE m.app_no = :of AND m.id < :near AND m.id >= :far
 ORDER BY m.id DESC LIMIT 1 OFFSET :stride - 1;

-- name: messages_end_back
SELECT m.id FROM message m WHERE m.app_no = :of AND m.id > :near AND m.id <= :far
 ORDER BY m.id LIMIT 1 OFFSET :stride - 1;

-- name: messages_of
-- include: message_shown
 WHERE m.app_no = :of AND m.id IN (SELECT value FROM json_each(:ids));

-- name: message_payloads
SELECT seq, payload FROM message WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: message_expunge
UPDATE message SET payload = NULL
 WHERE seq = :seq
   AND (:force OR NOT EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = :id)
                  AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.message_id = :id AND d.resolved_at IS NULL))
RETURNING seq;

-- part: keeps
-- Whether the lane n holds back the open delivery d.
coalesce(d.state < 2 AND (n.status IN (1, 2) OR n.circuit IN (1, 2)
                          OR (n.held_until > :now AND d.due_at < n.held_until)), 0)

-- part: message_deliveries
SELECT d.id, d.state, d.app_no, d.endpoint_no, e.id AS endpoint_id, d.message_id, d.event_type, d.attempts, d.sent,
       d.message_at, d.due_at, d.expires_at, NULL AS finished_at, NULL AS reason, NULL AS detail,
-- include: keeps
       AS held
  FROM delivery d JOIN endpoint e ON e.no = d.endpoint_no LEFT JOIN lane n ON n.endpoint_no = d.endpoint_no
 WHERE d.message_id = :id
UNION ALL
SELECT d.id, 3, d.app_no, d.endpoint_no, e.id, d.message_id, d.event_type, d.attempts, d.sent,
       d.message_at, NULL, NULL, d.finished_at, NULL, NULL, 0
  FROM delivery_done d JOIN endpoint e ON e.no = d.endpoint_no WHERE d.message_id = :id
UNION ALL
SELECT d.id, CASE WHEN d.resolved_at IS NULL THEN 4 ELSE 5 END, d.app_no, d.endpoint_no, e.id, d.message_id,
       d.event_type, d.attempts, d.sent, d.message_at, NULL, NULL, d.died_at, d.reason, d.detail, 0
  FROM dead_letter d JOIN endpoint e ON e.no = d.endpoint_no WHERE d.message_id = :id

-- name: deliveries
-- include: message_deliveries
ORDER BY 1;

-- name: deliveries_page
SELECT f.* FROM (
-- include: message_deliveries
) f
 WHERE f.id > :after AND (:state IS NULL OR f.state = :state) AND (:held IS NULL OR f.held = :held)
 ORDER BY f.id LIMIT :limit;

-- name: attempts
SELECT t.*, e.id AS endpoint_id, e.url AS endpoint_url FROM attempt t JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.message_id = :id ORDER BY t.started_at, t.id;

-- name: attempt
SELECT t.*, e.id AS endpoint_id, e.url AS endpoint_url FROM attempt t JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.message_id = :id AND t.id = :attempt_id;

-- name: attempt_expunge
UPDATE attempt SET response_headers = NULL, response_body = NULL WHERE message_id = :id AND id = :attempt_id RETURNING id;

-- part: attempt_shown
SELECT t.id, t.delivery_id, t.message_id, t.endpoint_no, e.id AS endpoint_id, e.url AS endpoint_url, t.event_type, t.number,
       t.trigger, t.outcome, t.probe, t.started_at, t.status_code, t.error, t.detail, t.address, t.truncated, t.dns_us,
       t.connect_us, t.tls_us, t.first_byte_us, t.total_us, CASE WHEN :content THEN t.response_headers END AS response_headers,
       CASE WHEN :content THEN t.response_body END AS response_body
  FROM attempt t JOIN endpoint e ON e.no = t.endpoint_no

-- part: endpoint_attempts_filter
   AND (:after IS NULL OR t.started_at > :after) AND (:before IS NULL OR t.started_at < :before)
-- include: of_outcome
   AND (:code_class IS NULL OR coalesce(t.status_code, 0) BETWEEN :code_class AND :code_class + 99)
   AND (:event_types IS NULL OR t.event_type IN (SELECT value FROM json_each(:event_types)))
   AND (:channel IS NULL AND :tag IS NULL
        OR (SELECT (:channel IS NULL OR :channel IN (SELECT value FROM json_each(m.channels)))
                   AND (:tag IS NULL OR :tag IN (SELECT value FROM json_each(m.tags)))
              FROM message m WHERE m.id = t.message_id AND m.app_no = t.app_no))

-- part: of_outcome
-- There are two explicit conditions, because SQLite would not use the index of failed attempts otherwise.
   AND t.outcome = 'delivered' -- if :is_delivered
   AND t.outcome <> 'delivered' -- if :is_failed

-- name: endpoint_attempts
-- include: attempt_shown
 WHERE t.endpoint_no = :of AND t.id < :near AND t.id >= :far
-- include: endpoint_attempts_filter
 ORDER BY t.id DESC LIMIT :limit;

-- name: endpoint_attempts_back
-- include: attempt_shown
 WHERE t.endpoint_no = :of AND t.id > :near AND t.id <= :far
-- include: endpoint_attempts_filter
 ORDER BY t.id LIMIT :limit;

-- name: endpoint_attempts_end
-- Like `messages_end`, for attempts. If the caller filters by outcome, the scan counts only attempts with this outcome.
SELECT t.id FROM attempt t WHERE t.endpoint_no = :of AND t.id < :near AND t.id >= :far
-- include: of_outcome
 ORDER BY t.id DESC LIMIT 1 OFFSET :stride - 1;

-- name: endpoint_attempts_end_back
SELECT t.id FROM attempt t WHERE t.endpoint_no = :of AND t.id > :near AND t.id <= :far
-- include: of_outcome
 ORDER BY t.id LIMIT 1 OFFSET :stride - 1;

-- part: message_attempts_filter
          AND (:after IS NULL OR t.started_at > :after) AND (:before IS NULL OR t.started_at < :before)
          AND (:delivered IS NULL OR (t.outcome = 'delivered') = :delivered)
          AND (:code_class IS NULL OR coalesce(t.status_code, 0) BETWEEN :code_class AND :code_class + 99)
          AND (:endpoint_no IS NULL OR t.endpoint_no = :endpoint_no)

-- name: message_attempts
-- Rows are chosen by rowid first, so that SQLite does not sort the stored responses with them.
-- include: attempt_shown
 WHERE t.rowid IN (
       SELECT t.rowid FROM attempt t
        WHERE t.message_id = :of AND t.id < :near AND t.id >= :far
-- include: message_attempts_filter
        ORDER BY t.id DESC LIMIT :limit)
 ORDER BY t.id DESC;

-- name: message_attempts_back
-- include: attempt_shown
 WHERE t.rowid IN (
       SELECT t.rowid FROM attempt t
        WHERE t.message_id = :of AND t.id > :near AND t.id <= :far
-- include: message_attempts_filter
        ORDER BY t.id LIMIT :limit)
 ORDER BY t.id;

-- part: attempted_messages_shown
SELECT t.id AS attempt_id, t.started_at AS attempted_at, m.seq, m.id, m.app_no, a.id AS app_id, m.event_type, NULL AS payload,
       length(m.payload) AS size, m.created_at, m.event_id, m.channels, m.tags, m.ordering_key, m.deliver_at, m.policy, m.trace,
       coalesce((SELECT x.state
                   FROM (SELECT d.id, d.state FROM delivery d
                          WHERE d.message_id = t.message_id AND d.endpoint_no = t.endpoint_no
                         UNION ALL
                         SELECT d.id, 3 FROM delivery_done d
                          WHERE d.message_id = t.message_id AND d.endpoint_no = t.endpoint_no
                         UNION ALL
                         SELECT d.id, CASE WHEN d.resolved_at IS NULL THEN 4 ELSE 5 END FROM dead_letter d
                          WHERE d.message_id = t.message_id AND d.endpoint_no = t.endpoint_no) x
                  ORDER BY x.id DESC LIMIT 1),
                CASE WHEN t.outcome = 'delivered' THEN 3 ELSE 4 END) AS state,
       (SELECT min(w.due_at) FROM delivery w
         WHERE w.message_id = t.message_id AND w.endpoint_no = t.endpoint_no AND w.state < 2) AS next_at
  FROM attempt t
  JOIN message m ON m.id = t.message_id AND m.app_no = t.app_no
  JOIN application a ON a.no = t.app_no

-- part: attempted_messages_filter
   AND NOT EXISTS (SELECT 1 FROM attempt p
                    WHERE p.message_id = t.message_id AND p.endpoint_no = t.endpoint_no AND p.id < t.id)
   AND (:after IS NULL OR t.started_at > :after) AND (:before IS NULL OR t.started_at < :before)
   AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
   AND (:event_types IS NULL OR t.event_type IN (SELECT value FROM json_each(:event_types)))
   AND (:channel IS NULL OR :channel IN (SELECT value FROM json_each(m.channels)))
   AND (:tag IS NULL OR :tag IN (SELECT value FROM json_each(m.tags)))

-- name: attempted_messages
-- Lists a message at its first attempt at the endpoint, so later attempts do not move the message in the list.
-- include: attempted_messages_shown
 WHERE t.endpoint_no = :of AND t.id < :near AND t.id >= :far AND t.number = 1
-- include: attempted_messages_filter
 ORDER BY t.id DESC LIMIT :limit;

-- name: attempted_messages_back
-- include: attempted_messages_shown
 WHERE t.endpoint_no = :of AND t.id > :near AND t.id <= :far AND t.number = 1
-- include: attempted_messages_filter
 ORDER BY t.id LIMIT :limit;

-- name: lane_page
-- Reads the organization's applications and their endpoints. The plus signs prevent the use of the index on endpoint
-- ids, which would read the endpoints of all organizations.
SELECT e.no FROM application a JOIN endpoint e ON e.app_no = a.no
 WHERE a.org_id = :org_id AND a.deleted_at IS NULL AND e.deleted_at IS NULL AND (:app_no IS NULL OR a.no = :app_no)
   AND +e.id > :after AND (:url = '' OR instr(lower(e.url), :url) > 0)
   AND (:state IS NULL OR (
       SELECT CASE WHEN :state = 'sick' THEN s.state <> 'well' ELSE s.state = :state END FROM (
         SELECT CASE WHEN n.status = 1 THEN 'paused' WHEN n.status = 2 THEN 'disabled'
                     WHEN n.circuit = 1 THEN 'open' WHEN n.circuit = 2 THEN 'half_open'
                     WHEN n.held_until > :now THEN 'held' WHEN n.circuit = 3 THEN 'recovering'
                     WHEN n.failures > 0 THEN 'failing' WHEN n.pace IS NOT NULL THEN 'slowed' ELSE 'well' END AS state
           FROM lane n WHERE n.endpoint_no = e.no) s))
 ORDER BY +e.id LIMIT :limit;

-- name: lane_views
SELECT n.*, e.id AS endpoint_id, e.url AS url, e.description AS description, a.id AS app_id,
       (SELECT count(*) FROM (SELECT 1 FROM delivery d WHERE d.endpoint_no = n.endpoint_no AND d.state < 2
                              UNION ALL
                              SELECT 1 FROM delivery d WHERE d.endpoint_no = n.endpoint_no AND d.state = 6
                               LIMIT :counted)) AS depth,
       (SELECT d.due_at FROM delivery d WHERE d.endpoint_no = n.endpoint_no AND d.state < 2
         ORDER BY d.due_at LIMIT 1) AS oldest_due,
       (SELECT coalesce('status ' || t.status_code, t.error)
                || CASE WHEN t.detail = '' THEN '' ELSE ': ' || t.detail END
          FROM (SELECT * FROM attempt WHERE endpoint_no = n.endpoint_no ORDER BY id DESC LIMIT 20) t
         WHERE t.outcome <> 'delivered' ORDER BY t.id DESC LIMIT 1) AS last_error
  FROM json_each(:nos) f CROSS JOIN lane n ON n.endpoint_no = f.value
  JOIN endpoint e ON e.no = n.endpoint_no JOIN application a ON a.no = e.app_no
 WHERE n.status < 3;

-- name: lane_events
SELECT * FROM lane_event WHERE endpoint_no = :no ORDER BY id DESC LIMIT :limit;

-- name: timeline
SELECT * FROM lane_event WHERE endpoint_no = :no AND id < :iterator ORDER BY id DESC LIMIT :limit;

-- name: timeline_back
SELECT * FROM lane_event WHERE endpoint_no = :no AND id > :iterator ORDER BY id LIMIT :limit;
