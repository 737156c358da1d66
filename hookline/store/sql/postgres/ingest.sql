-- Ingest: one statement inserts messages, their idempotency keys and event ids, deliveries and wake tokens. Ingest
-- never writes lane rows.

-- part: offered
-- A worker of this process offers to send deliveries of these endpoints at once: see `engine/hand_over.py`. Leaves out
-- lanes from which a claim might not lease such a delivery at once: those with a limit, a failure or other deliveries
-- that wait. A lane with such deliveries has a wake token. The subquery is not a join, so that no plan reads all wake
-- tokens.
     offered AS MATERIALIZED (
       SELECT l.endpoint_no, l.revision, l.epoch
       FROM (SELECT unnest(endpoints) AS endpoint_no FROM settings) o
       JOIN hookline.lane l USING (endpoint_no)
       WHERE l.status = 0 AND l.circuit = 0 AND l.failures = 0 AND l.failing_since IS NULL AND l."window" IS NULL
         AND l.throttle_rate IS NULL AND l.concurrency IS NULL AND l.pace IS NULL AND l.app_rate IS NULL
         AND (l.held_until IS NULL OR l.held_until <= now())
         AND (SELECT w.id FROM hookline.wake w WHERE w.endpoint_no = l.endpoint_no LIMIT 1) IS NULL),

-- part: accept
-- Turns the rows of `fresh` into messages, deliveries and wake tokens. Of several rows with one event id, the first
-- wins. `settings.ages` has the seconds that a message waited in an outbox, by message id; NULL: none has waited. The
-- deliveries of the lanes in `offered` are leased under the claim token `settings.claim`, and get no wake token.
     events AS (
       INSERT INTO hookline.event_id (app_no, event_id, message_id, created_at)
       SELECT app_no, event_id, id, now() FROM fresh WHERE event_id IS NOT NULL ORDER BY app_no, event_id, ord
       ON CONFLICT DO NOTHING
       RETURNING message_id),
     msg AS (
       INSERT INTO hookline.message (id, app_no, event_type, event_id, channels, tags, ordering_key, deliver_at, policy, trace,
                                     payload, created_at)
       SELECT id, app_no, event_type, event_id, channels::text[], tags::text[], ordering_key, deliver_at, policy::jsonb, trace,
              payload, now()
       FROM fresh WHERE event_id IS NULL OR id IN (SELECT message_id FROM events) ORDER BY ord
       RETURNING seq, id, app_no, event_type, channels, deliver_at, policy, ordering_key, octet_length(payload) AS size),
     d AS (
       INSERT INTO hookline.delivery (app_no, endpoint_no, message_seq, message_at, message_id, event_type, due_at, expires_at,
                                      policy, ordering_key, state, claim, lease_until)
       SELECT app_no, endpoint_no, seq, now(), id, event_type, due_at, expires_at, policy, key,
              CASE WHEN key IS NOT NULL THEN 6 WHEN leased THEN 2 ELSE 0 END, CASE WHEN leased THEN claim END,
              CASE WHEN leased THEN now() + make_interval(secs => lease) END
       FROM (
         SELECT m.app_no, e.no AS endpoint_no, m.seq, m.id, m.event_type, x.due_at, x.expires_at, q.key, s.claim, s.lease,
                CASE WHEN m.policy IS NULL AND e.policy IS NULL AND t.policy IS NULL THEN NULL
                     ELSE coalesce(t.policy, '{}') || coalesce(e.policy, '{}') || coalesce(m.policy, '{}') END AS policy,
                -- 16384: `LARGE` in `rules/claim/budgets.py`. A worker reserves no slots for larger or later messages.
                q.key IS NULL AND m.deliver_at IS NULL AND m.size <= 16384 AND x.expires_at > now()
                AND (e.no IN (SELECT endpoint_no FROM offered)) IS TRUE AS leased
         FROM msg m
         CROSS JOIN settings s
         JOIN hookline.application a ON a.no = m.app_no
         JOIN hookline.endpoint e ON e.app_no = m.app_no AND e.deleted_at IS NULL AND e.status < 2
              AND (e.event_types IS NULL OR m.event_type = ANY (e.event_types))
              AND (e.channels IS NULL OR e.channels && m.channels)
         LEFT JOIN hookline.event_type t ON t.org_id = a.org_id AND t.name = m.event_type
         CROSS JOIN LATERAL (SELECT CASE e.ordering WHEN 'key' THEN m.ordering_key WHEN 'fifo' THEN '' END) q (key)
         CROSS JOIN LATERAL (
           SELECT greatest(now(), m.deliver_at),
                  greatest(now() - make_interval(secs => coalesce((s.ages ->> m.id)::float8, 0)), m.deliver_at)
                  + make_interval(secs => coalesce((m.policy ->> 'max_age')::float8, (e.policy ->> 'max_age')::float8,
                                                   (t.policy ->> 'max_age')::float8, s.max_age))) x (due_at, expires_at)
         ORDER BY m.seq, e.no) due
       RETURNING id, app_no, endpoint_no, message_id, due_at, expires_at, policy, ordering_key, state, lease_until),
     -- Paused endpoints get a wake token too: a concurrent resume cannot see these uncommitted deliveries, so it cannot
     -- wake the lane for them. A delivery with an ordering key always starts as queued, because this statement cannot
     -- see whether an earlier delivery of the key is still being sent. Its wake token names the key.
     woken AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT app_no, endpoint_no, min(due_at), min(due_at), string_agg(to_json(ordering_key)::text, ',')
       FROM d WHERE state <> 2 GROUP BY app_no, endpoint_no)

-- part: leased
-- The leased deliveries and the lanes of the offer, in the order of the fields that `leased` in `ingest.py` reads, and the
-- seconds that this statement took until now.
       (SELECT array_agg((message_id, id, endpoint_no, due_at, expires_at, lease_until, policy)) FROM d WHERE state = 2) AS leased,
       (SELECT array_agg((endpoint_no, revision, epoch)) FROM offered) AS lanes,
       extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 AS took

-- name: ingest
-- Inserts idempotency keys before event ids, and sorts both, so that concurrent batches do not deadlock. A message that
-- is missing in the result was refused: see `Ingest._refused`. $14 idempotency window in seconds, $15 the deployment's
-- max age, $16 the messages' ages, $17 the endpoints of the offer, $18 claim token, $19 lease in seconds. One more row,
-- without an id, has the leased deliveries if there is an offer.
WITH settings AS (SELECT $15::float8 AS max_age, $16::jsonb AS ages, $17::bigint[] AS endpoints, $18::bigint AS claim,
                         $19::float8 AS lease),
     -- include: offered
     m AS MATERIALIZED (
       SELECT u.*, a.org_id
       FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[],
                   $9::timestamptz[], $10::text[], $11::text[], $12::bytea[], $13::bytea[]) WITH ORDINALITY
            AS u (id, app_no, event_type, payload, event_id, channels, tags, ordering_key, deliver_at, policy, trace, key, body,
                  ord)
       JOIN hookline.application a ON a.no = u.app_no AND a.deleted_at IS NULL),
     keys AS (
       INSERT INTO hookline.idempotency AS i (key, body, message_id, created_at, expires_at)
       SELECT key, body, id, now(), now() + make_interval(secs => $14::float8) FROM m WHERE key IS NOT NULL ORDER BY key
       ON CONFLICT (key) DO UPDATE
       SET body = excluded.body, message_id = excluded.message_id, created_at = excluded.created_at,
           expires_at = excluded.expires_at
       WHERE i.expires_at <= now()
       RETURNING message_id),
     fresh AS MATERIALIZED (SELECT * FROM m WHERE key IS NULL OR id IN (SELECT message_id FROM keys)),
     -- include: accept
-- No join counts the deliveries: the planner does not know how many messages a batch has. It would plan a nested loop,
-- which compares each message of a large batch with all others.
SELECT id, now() AS created_at, sum(deliveries) AS deliveries, NULL::record[] AS leased, NULL::record[] AS lanes,
       NULL::float8 AS took,
       (SELECT hookline.announce() WHERE EXISTS (SELECT FROM d WHERE state <> 2)) AS announced
FROM (SELECT id, 0 AS deliveries FROM msg UNION ALL SELECT message_id, 1 FROM d) counted
GROUP BY id
UNION ALL
SELECT NULL, now(), NULL, leased, lanes, took, NULL
FROM (SELECT
       -- include: leased
     ) l
WHERE (SELECT endpoints IS NOT NULL FROM settings)

-- name: ingest_keys
SELECT key, body, message_id, created_at FROM hookline.idempotency WHERE key = ANY ($1::bytea[])

-- name: ingest_accepted_under
SELECT body, message_id, created_at FROM hookline.idempotency WHERE key = $1::bytea AND expires_at > now()

-- name: ingest_batch_lock
-- Tries to take the lock of a batch's idempotency key. Returns false if another connection has the lock. The lock ends
-- with the transaction.
SELECT pg_try_advisory_xact_lock(1214546, $1::integer)

-- name: ingest_batch_key
-- Returns no row if the idempotency key is already stored and has not expired.
INSERT INTO hookline.idempotency AS i (key, body, message_id, created_at, expires_at)
VALUES ($1::bytea, $2::bytea, '', now(), now() + make_interval(secs => $3::float8))
ON CONFLICT (key) DO UPDATE
SET body = excluded.body, message_id = excluded.message_id, created_at = excluded.created_at, expires_at = excluded.expires_at
WHERE i.expires_at <= now()
RETURNING true

-- name: ingest_batch_kept
SELECT body, answers FROM hookline.idempotency WHERE key = $1::bytea AND answers IS NOT NULL

-- name: ingest_batch_keep
UPDATE hookline.idempotency SET answers = $2::bytea WHERE key = $1::bytea

-- name: ingest_event_ids
SELECT e.app_no, e.event_id, e.message_id, e.created_at
FROM unnest($1::bigint[], $2::text[]) AS r (app_no, event_id)
JOIN hookline.event_id e ON e.app_no = r.app_no AND e.event_id = r.event_id

-- name: ingest_forget_keys
-- Deletes the idempotency keys of messages that were refused because of their event id. Only an accepted message keeps
-- its key.
DELETE FROM hookline.idempotency WHERE key = ANY ($1::bytea[]) AND message_id = ANY ($2::text[])

-- name: ingest_settle
-- Finds messages again after the connection was lost during COMMIT. $2 and $3 prune the partitions.
SELECT m.id, m.created_at,
       (SELECT count(*) FROM hookline.delivery d WHERE d.message_id = m.id)
       + (SELECT count(*) FROM hookline.delivery_done d WHERE d.message_id = m.id AND d.finished_at >= $2::timestamptz)
       + (SELECT count(*) FROM hookline.dead_letter d WHERE d.message_id = m.id) AS deliveries
FROM hookline.message m
WHERE m.id = ANY ($1::text[]) AND m.created_at >= $2::timestamptz AND m.created_at <= $3::timestamptz

-- name: ingest_at_work
-- Returns whether the server process with the pid $1, whose connection was lost, still runs its transaction.
SELECT EXISTS (
  SELECT FROM pg_stat_activity WHERE pid = $1::integer AND application_name = 'hookline' AND state <> 'idle')
