-- Dead letters and replay. A filter that is not given is NULL; each call is planned anew, so it costs nothing.
-- $1 organization, $2 application, $3 endpoint, $4 event type, $5 reason, $6 since, $7 until, $8 ids, $9 resolved.

-- name: dead_letters
SELECT l.*, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
FROM hookline.dead_letter l
JOIN hookline.application a ON a.no = l.app_no
JOIN hookline.endpoint e ON e.no = l.endpoint_no
WHERE ($1::text IS NULL OR a.org_id = $1) AND ($2::bigint IS NULL OR l.app_no = $2)
  AND ($3::bigint IS NULL OR l.endpoint_no = $3) AND ($4::text IS NULL OR l.event_type = $4)
  AND ($5::text IS NULL OR l.reason = $5) AND ($6::timestamptz IS NULL OR l.died_at >= $6)
  AND ($7::timestamptz IS NULL OR l.died_at < $7) AND ($8::bigint[] IS NULL OR l.id = ANY ($8))
  AND CASE WHEN $9::boolean IS NULL THEN true WHEN $9 THEN l.resolved_at IS NOT NULL ELSE l.resolved_at IS NULL END
  AND ($10::bigint IS NULL OR l.id < $10)
ORDER BY l.id DESC LIMIT $11::integer

-- name: dead_letters_back
SELECT l.*, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
FROM hookline.dead_letter l
JOIN hookline.application a ON a.no = l.app_no
JOIN hookline.endpoint e ON e.no = l.endpoint_no
WHERE ($1::text IS NULL OR a.org_id = $1) AND ($2::bigint IS NULL OR l.app_no = $2)
  AND ($3::bigint IS NULL OR l.endpoint_no = $3) AND ($4::text IS NULL OR l.event_type = $4)
  AND ($5::text IS NULL OR l.reason = $5) AND ($6::timestamptz IS NULL OR l.died_at >= $6)
  AND ($7::timestamptz IS NULL OR l.died_at < $7) AND ($8::bigint[] IS NULL OR l.id = ANY ($8))
  AND CASE WHEN $9::boolean IS NULL THEN true WHEN $9 THEN l.resolved_at IS NOT NULL ELSE l.resolved_at IS NULL END
  AND ($10::bigint IS NULL OR l.id > $10)
ORDER BY l.id LIMIT $11::integer

-- name: dead_letter
SELECT l.*, a.id AS app_id, e.id AS endpoint_id, e.url AS endpoint_url
FROM hookline.dead_letter l
JOIN hookline.application a ON a.no = l.app_no
JOIN hookline.endpoint e ON e.no = l.endpoint_no
WHERE l.id = $1

-- name: dead_stats
SELECT l.reason, l.resolved_at IS NOT NULL AS resolved, count(*) AS many, min(l.died_at) AS oldest
FROM hookline.dead_letter l
JOIN hookline.application a ON a.no = l.app_no
WHERE ($1::text IS NULL OR a.org_id = $1) AND ($2::bigint IS NULL OR l.app_no = $2)
  AND ($3::bigint IS NULL OR l.endpoint_no = $3) AND ($4::text IS NULL OR l.event_type = $4)
  AND ($5::text IS NULL OR l.reason = $5) AND ($6::timestamptz IS NULL OR l.died_at >= $6)
  AND ($7::timestamptz IS NULL OR l.died_at < $7) AND ($8::bigint[] IS NULL OR l.id = ANY ($8))
  AND CASE WHEN $9::boolean IS NULL THEN true WHEN $9 THEN l.resolved_at IS NOT NULL ELSE l.resolved_at IS NULL END
GROUP BY 1, 2

-- name: replay
-- $10 most of them, $11 the deployment's max age. The delivery keeps its id, so its history stays with it.
WITH x AS MATERIALIZED (
       SELECT l.id FROM hookline.dead_letter l
       JOIN hookline.application a ON a.no = l.app_no
       JOIN hookline.lane n ON n.endpoint_no = l.endpoint_no AND n.status < 2
       JOIN hookline.message m ON m.created_at = l.message_at AND m.seq = l.message_seq AND m.payload IS NOT NULL
       WHERE ($1::text IS NULL OR a.org_id = $1) AND ($2::bigint IS NULL OR l.app_no = $2)
         AND ($3::bigint IS NULL OR l.endpoint_no = $3) AND ($4::text IS NULL OR l.event_type = $4)
         AND ($5::text IS NULL OR l.reason = $5) AND ($6::timestamptz IS NULL OR l.died_at >= $6)
         AND ($7::timestamptz IS NULL OR l.died_at < $7) AND ($8::bigint[] IS NULL OR l.id = ANY ($8))
         AND CASE WHEN $9::boolean IS NULL THEN true WHEN $9 THEN l.resolved_at IS NOT NULL ELSE l.resolved_at IS NULL END
       ORDER BY l.id LIMIT $10::integer
       FOR UPDATE OF l SKIP LOCKED),
     gone AS (DELETE FROM hookline.dead_letter WHERE id = ANY (ARRAY(SELECT id FROM x)) RETURNING *),
     d AS (
       INSERT INTO hookline.delivery (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, state, attempts,
                                      sent, trigger, due_at, expires_at, last_status, policy)
       OVERRIDING SYSTEM VALUE
       SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, 0, 0, sent, 1, now(),
              now() + make_interval(secs => coalesce((policy ->> 'max_age')::float8, $11::float8)), last_status, policy
       FROM gone ORDER BY id
       RETURNING endpoint_no),
     woken AS (INSERT INTO hookline.wake (endpoint_no, at, floor) SELECT DISTINCT endpoint_no, now(), now() FROM d)
SELECT count(*), (SELECT hookline.announce()) FROM d

-- name: resolve
-- $10 most of them, $11 the note.
WITH x AS MATERIALIZED (
       SELECT l.id FROM hookline.dead_letter l
       JOIN hookline.application a ON a.no = l.app_no
       WHERE ($1::text IS NULL OR a.org_id = $1) AND ($2::bigint IS NULL OR l.app_no = $2)
         AND ($3::bigint IS NULL OR l.endpoint_no = $3) AND ($4::text IS NULL OR l.event_type = $4)
         AND ($5::text IS NULL OR l.reason = $5) AND ($6::timestamptz IS NULL OR l.died_at >= $6)
         AND ($7::timestamptz IS NULL OR l.died_at < $7) AND ($8::bigint[] IS NULL OR l.id = ANY ($8))
         AND $9::boolean IS NULL AND l.resolved_at IS NULL
       ORDER BY l.id LIMIT $10::integer
       FOR UPDATE OF l SKIP LOCKED),
     closed AS (
       UPDATE hookline.dead_letter SET resolved_at = now(), note = $11::text WHERE id = ANY (ARRAY(SELECT id FROM x))
       RETURNING 1)
SELECT count(*) FROM closed

-- name: replay_missing
-- Under the lane's lock: two of these at once would make a delivery each. $1 endpoint, $2 since, $3 until, $4 most, $5 max age.
WITH m AS MATERIALIZED (
       SELECT m.seq, m.id, m.app_no, m.event_type, m.created_at, m.policy, greatest(now(), m.deliver_at) AS due_at, e.no, e.policy AS endpoint_policy, t.policy AS type_policy
       FROM hookline.endpoint e
       JOIN hookline.application a ON a.no = e.app_no
       JOIN hookline.message m ON m.app_no = e.app_no
       LEFT JOIN hookline.event_type t ON t.org_id = a.org_id AND t.name = m.event_type
       WHERE e.no = $1::bigint AND e.deleted_at IS NULL
         AND m.created_at >= $2::timestamptz AND m.created_at < $3::timestamptz AND m.payload IS NOT NULL
         AND (e.event_types IS NULL OR m.event_type = ANY (e.event_types))
         AND (e.channels IS NULL OR e.channels && m.channels)
         AND NOT EXISTS (SELECT FROM hookline.delivery d WHERE d.message_id = m.id AND d.endpoint_no = $1)
         AND NOT EXISTS (SELECT FROM hookline.delivery_done d
                         WHERE d.message_id = m.id AND d.endpoint_no = $1 AND d.finished_at >= $2::timestamptz)
         AND NOT EXISTS (SELECT FROM hookline.dead_letter d WHERE d.message_id = m.id AND d.endpoint_no = $1)
       ORDER BY m.created_at, m.seq LIMIT $4::integer),
     d AS (
       INSERT INTO hookline.delivery (app_no, endpoint_no, message_seq, message_at, message_id, event_type, trigger, due_at,
                                      expires_at, policy)
       SELECT app_no, no, seq, created_at, id, event_type, 1, due_at,
              due_at + make_interval(secs => coalesce((policy ->> 'max_age')::float8, (endpoint_policy ->> 'max_age')::float8,
                                                     (type_policy ->> 'max_age')::float8, $5::float8)),
              CASE WHEN policy IS NULL AND endpoint_policy IS NULL AND type_policy IS NULL THEN NULL
                   ELSE coalesce(type_policy, '{}') || coalesce(endpoint_policy, '{}') || coalesce(policy, '{}') END
       FROM m ORDER BY created_at, seq
       RETURNING endpoint_no, due_at),
     woken AS (INSERT INTO hookline.wake (endpoint_no, at, floor) SELECT endpoint_no, min(due_at), min(due_at) FROM d GROUP BY endpoint_no)
SELECT count(*), (SELECT hookline.announce()) FROM d

-- name: resend
-- $1 endpoint, $2 message, $3 and $4 when it can have been made, $5 the deployment's max age.
WITH d AS (
       INSERT INTO hookline.delivery (app_no, endpoint_no, message_seq, message_at, message_id, event_type, trigger, due_at,
                                      expires_at, policy)
       SELECT m.app_no, e.no, m.seq, m.created_at, m.id, m.event_type, 1, now(),
              now() + make_interval(secs => coalesce((m.policy ->> 'max_age')::float8, (e.policy ->> 'max_age')::float8,
                                                     (t.policy ->> 'max_age')::float8, $5::float8)),
              CASE WHEN m.policy IS NULL AND e.policy IS NULL AND t.policy IS NULL THEN NULL
                   ELSE coalesce(t.policy, '{}') || coalesce(e.policy, '{}') || coalesce(m.policy, '{}') END
       FROM hookline.endpoint e
       JOIN hookline.application a ON a.no = e.app_no
       JOIN hookline.message m ON m.app_no = e.app_no AND m.id = $2::text
       LEFT JOIN hookline.event_type t ON t.org_id = a.org_id AND t.name = m.event_type
       WHERE e.no = $1::bigint AND e.deleted_at IS NULL AND m.payload IS NOT NULL
         AND m.created_at >= $3::timestamptz AND m.created_at <= $4::timestamptz
       LIMIT 1
       RETURNING id, endpoint_no),
     woken AS (INSERT INTO hookline.wake (endpoint_no, at, floor) SELECT endpoint_no, now(), now() FROM d)
SELECT id, hookline.announce() FROM d
