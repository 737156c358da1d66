-- Claim: one transaction. `claim_lanes` locks lanes, `rules/lane/admission.py` decides, `claim_take` leases
-- deliveries, `lane_write` updates the lanes.

-- part: serve
-- Deletes the wake tokens of the lanes in `chosen`, which has locked these lanes. Also deletes wake tokens whose lane
-- no longer exists. It searches for them among the $3 oldest due wake tokens.
     lanes AS MATERIALIZED (SELECT DISTINCT ON (endpoint_no) * FROM chosen ORDER BY endpoint_no, turn, at),
     -- Up to 1,000 wake tokens of each lane, also those for a later time. The claim deletes them, because it inserts
     -- at most one new wake token per lane.
     mine AS MATERIALIZED (
       SELECT x.* FROM lanes l CROSS JOIN LATERAL (
         SELECT id, endpoint_no, floor, keys FROM hookline.wake
         WHERE endpoint_no = l.endpoint_no ORDER BY endpoint_no LIMIT 1000
         FOR UPDATE SKIP LOCKED) x),
     consumed AS (DELETE FROM hookline.wake WHERE id = ANY (ARRAY(SELECT id FROM mine))),
     stray AS MATERIALIZED (
       SELECT t.id FROM hookline.wake t
       WHERE t.id = ANY (ARRAY(
               SELECT s.id FROM (
                 SELECT id, endpoint_no FROM hookline.wake WHERE at <= now() ORDER BY at LIMIT $3::integer) s
               WHERE NOT EXISTS (SELECT FROM hookline.lane l WHERE l.endpoint_no = s.endpoint_no)))
       FOR UPDATE SKIP LOCKED),
     cleared AS (DELETE FROM hookline.wake WHERE id = ANY (ARRAY(SELECT id FROM stray)))

-- part: served
       l.*, least(f.floor, l.waiting_floor) AS floor, f.keys, now() AS now, (SELECT count(*) FROM chosen) AS tokens,
       -- Commit without waiting for the disk. If the server crashes, the claim is lost, and a worker claims the
       -- deliveries again. The transaction that records a result waits until the disk has its own commit and all
       -- earlier commits, so the claim is then on the disk too.
       (SELECT set_config('synchronous_commit', 'off', true))
FROM lanes l
-- An inner join would return the same rows, because each lane has wake tokens. But the planner expects one lane, so it
-- would run an inner join as a nested loop, which compares each lane with all wake tokens. PostgreSQL never runs a full
-- join as a nested loop.
FULL JOIN (SELECT endpoint_no, min(floor) AS floor, string_agg(keys, ',') AS keys FROM mine GROUP BY endpoint_no) f
     USING (endpoint_no)
ORDER BY l.turn, l.at

-- name: claim_lanes
-- $1 the earliest time of the wake tokens to read (the watermark), $2 the maximum number of wake tokens.
-- One join locks each wake token with its lane, and returns the lane as it is after the lock. The snapshot of the
-- statement is older than the lock, so a separate read of the lane could return an old version of the row.
WITH chosen AS MATERIALIZED (
       SELECT NULL::bigint AS turn, w.at, l.*
       FROM hookline.wake w JOIN hookline.lane l USING (endpoint_no)
       WHERE w.at <= now() AND w.at >= $1::timestamptz
       ORDER BY w.at LIMIT $2::integer
       FOR NO KEY UPDATE OF w, l SKIP LOCKED),
     -- include: serve
SELECT 0 AS spared,
       -- include: served

-- name: claim_lanes_in_crowd
-- Used while more silent lanes are due than a claim may start requests to: see `rules/claim/division.py`. $1, $2 and $3
-- as in `claim_lanes`, $4 the endpoints that answer, $5 and $6 numbers of silent lanes, $7 the earliest time of recent
-- wake tokens, $8 the endpoints with requests in flight. Finds the lanes of endpoints that answer among the 4,096 oldest
-- and the 512 newest due wake tokens. Among the newest ones, it also finds $5 silent lanes without a request in flight,
-- and $6 of those with a recent wake token whose last requests did not fail: most of these have new endpoints. `IS TRUE`
-- makes PostgreSQL look up each wake token in a hash table. Otherwise a plan that was made while the table was empty
-- compares each wake token with all endpoints.
WITH answering AS MATERIALIZED (SELECT unnest($4::bigint[]) AS endpoint_no),
     busy AS MATERIALIZED (SELECT unnest($8::bigint[]) AS endpoint_no),
     newest AS MATERIALIZED (
       SELECT id, endpoint_no, at, (endpoint_no IN (SELECT endpoint_no FROM answering)) IS TRUE AS answers,
              (endpoint_no IN (SELECT endpoint_no FROM busy)) IS TRUE AS busy
       FROM (SELECT id, endpoint_no, at FROM hookline.wake WHERE at <= now() AND at >= $1::timestamptz
             ORDER BY at DESC LIMIT 512) t),
     chosen AS MATERIALIZED (
       SELECT NULL::bigint AS turn, w.at, l.*
       FROM hookline.wake w JOIN hookline.lane l USING (endpoint_no)
       WHERE w.id = ANY (ARRAY(
               (SELECT id FROM (SELECT id, endpoint_no FROM hookline.wake WHERE at <= now() AND at >= $1::timestamptz
                                ORDER BY at LIMIT 4096) t
                WHERE (endpoint_no IN (SELECT endpoint_no FROM answering)) IS TRUE LIMIT $2::integer)
               UNION ALL (SELECT id FROM newest WHERE answers LIMIT $2::integer)
               UNION ALL (SELECT id FROM newest WHERE NOT answers AND NOT busy LIMIT $5::integer)
               UNION ALL (SELECT n.id FROM newest n JOIN hookline.lane l USING (endpoint_no)
                          WHERE NOT n.answers AND NOT n.busy AND n.at > $7::timestamptz AND l.failures = 0
                          ORDER BY n.at DESC LIMIT $6::integer)))
       ORDER BY w.at DESC
       FOR NO KEY UPDATE OF w, l SKIP LOCKED),
     -- include: serve
SELECT 0 AS spared,
       -- include: served

-- name: claim_lanes_in_turn
-- Used while more wake tokens are due than a claim reads: see `rules/claim/rotation.py`. $1 and $2 as in `claim_lanes`,
-- $3 as in the part `serve`.
-- `step` finds the next applications in the rotation: at most $5 applications that have due wake tokens and a number
-- below $4. It searches downwards, so that it reads the newest wake tokens of an application first. Deleted wake tokens
-- that a long transaction keeps in the index come last. If no application is left, the last row of `step` has NULL.
-- `turns` reads at most $2 / 2 wake tokens, divided evenly between these applications. It compares whole rows
-- `(app_no, at)`, so that the planner uses the index `wake_app` and not `wake_at`.
-- `by_age` reads wake tokens of all applications, oldest first, until `turns` and `by_age` together have $2. But if a
-- lane in `turns` has a backlog, `by_age` reads at most $2 - $2 / 2, even if `turns` has read few. Half of the slots
-- are then for the lanes in `turns`, because a lane with a backlog gets more than one slot.
WITH RECURSIVE step (no, place) AS (
       SELECT $4::bigint, 0
       UNION ALL
       SELECT (SELECT w.app_no FROM hookline.wake w WHERE w.app_no < s.no AND w.at <= now() AND w.at >= $1::timestamptz
               ORDER BY w.app_no DESC, w.at DESC LIMIT 1), s.place + 1
       FROM step s WHERE s.no IS NOT NULL AND s.place < $5::integer),
     app AS MATERIALIZED (
       SELECT no, place, extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 AS took
       FROM step WHERE place > 0),
     turns AS MATERIALIZED (
       SELECT row_number() OVER (PARTITION BY x.app_no ORDER BY x.at) AS turn, x.*
       FROM app CROSS JOIN LATERAL (
         SELECT w.id, w.at, w.floor < w.at AS backlogged, l.*
         FROM hookline.wake w JOIN hookline.lane l USING (endpoint_no)
         WHERE (w.app_no, w.at) >= (app.no, $1) AND (w.app_no, w.at) <= (app.no, now())
         ORDER BY w.app_no, w.at LIMIT (SELECT $2::integer / 2 / count(no) FROM app)
         FOR NO KEY UPDATE OF w, l SKIP LOCKED) x
       WHERE app.no IS NOT NULL),
     by_age AS MATERIALIZED (
       SELECT NULL::bigint AS turn, w.id, w.at, NULL::boolean AS backlogged, l.*
       FROM hookline.wake w JOIN hookline.lane l USING (endpoint_no)
       WHERE w.at <= now() AND w.at >= $1 AND w.id <> ALL (ARRAY(SELECT id FROM turns))
       ORDER BY w.at LIMIT (SELECT CASE WHEN bool_or(backlogged) THEN $2 - $2 / 2 ELSE $2 - count(*) END FROM turns)
       FOR NO KEY UPDATE OF w, l SKIP LOCKED),
     chosen AS MATERIALIZED (SELECT * FROM turns UNION ALL SELECT * FROM by_age),
     -- include: serve
SELECT (SELECT no FROM app ORDER BY place DESC LIMIT 1) AS last_app, (SELECT max(took) FROM app) AS took,
       -- The number of wake tokens by which a backlog in `turns` lowers the limit $2. The statement does not check
       -- whether so many more wake tokens are due.
       (SELECT CASE WHEN bool_or(backlogged) THEN greatest(0, $2 / 2 - count(*)) ELSE 0 END FROM turns) AS spared,
       -- include: served

-- name: app_paces_lock
-- Locks the rate limiters (rows of `app_pace`) of the locked lanes' applications. A lane has an `app_rate` only while
-- its application has such a row.
SELECT app_no, tat, tail_at FROM hookline.app_pace WHERE app_no = ANY ($1::bigint[]) ORDER BY app_no FOR NO KEY UPDATE

-- name: app_paces_write
UPDATE hookline.app_pace p SET tat = r.tat, tail_at = r.tail_at
FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[]) AS r (app_no, tat, tail_at) WHERE p.app_no = r.app_no

-- name: claim_take
-- $1 endpoints, $2 maximum deliveries to take from each lane, $3 floors (the earliest due time to search for), $4 when
-- to wake the lane again (a past time keeps the place of a lane from which the claim could take nothing), $5 endpoints
-- whose claimed deliveries are counted in `lane.in_flight`, $6 claim token, $7 lease in seconds, $8 the endpoints'
-- applications. A result row without an id is about a lane with remaining deliveries: `left_floor` is their earliest
-- due time.
WITH p AS MATERIALIZED (
       SELECT * FROM unnest($1::bigint[], $2::integer[], $3::timestamptz[], $4::timestamptz[], $8::bigint[])
                     AS p (endpoint_no, quota, floor, rest_at, app_no)),
     -- Read without locks. So a lane whose remaining delivery is locked by another worker gets a wake token that it
     -- may not need.
     cand AS MATERIALIZED (
       SELECT p.endpoint_no, p.app_no, p.rest_at, d.id, d.due_at, d.due_at <= now()
              AND row_number() OVER (PARTITION BY p.endpoint_no ORDER BY d.due_at, d.id) <= p.quota AS wanted
       FROM p CROSS JOIN LATERAL (
         SELECT id, due_at FROM hookline.delivery
         WHERE endpoint_no = p.endpoint_no AND state < 2 AND due_at >= p.floor
         ORDER BY due_at, id LIMIT p.quota + 1) d),
     -- `state + 0` matches no partial index. Otherwise the planner may use a partial index that is full of dead rows.
     took AS MATERIALIZED (
       SELECT id FROM hookline.delivery
       WHERE id = ANY (ARRAY(SELECT id FROM cand WHERE wanted)) AND state + 0 < 2 AND due_at <= now()
       FOR NO KEY UPDATE SKIP LOCKED),
     rest AS MATERIALIZED (
       SELECT app_no, endpoint_no, rest_at, min(due_at) AS floor FROM cand WHERE id NOT IN (SELECT id FROM took)
       GROUP BY app_no, endpoint_no, rest_at),
     -- Inserts one wake token per lane for the deliveries that this claim does not take. A lane whose `rest_at` is NULL
     -- gets no wake token here. If such a lane has too many requests in flight, the transaction that records the end of
     -- one of these requests inserts the wake token.
     armed AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor)
       SELECT app_no, endpoint_no, greatest(floor, rest_at), floor FROM rest WHERE rest_at IS NOT NULL
       RETURNING at),
     -- Notifies sleeping workers if a new wake token is due within a second. They may have free slots for the
     -- remaining deliveries.
     notified AS MATERIALIZED (SELECT hookline.announce() FROM armed WHERE at <= now() + interval '1 s' LIMIT 1),
     leased AS (
       UPDATE hookline.delivery
       SET state = 2, claim = $6::bigint, lease_until = now() + make_interval(secs => $7::float8),
           counted = endpoint_no = ANY ($5::bigint[])
       WHERE id = ANY (ARRAY(SELECT id FROM took))
       RETURNING id, endpoint_no, app_no, message_id, message_seq, message_at, event_type, attempts, sent, trigger, due_at,
                 expires_at, lease_until, last_delay, policy, ordering_key)
SELECT *, NULL::timestamptz AS left_floor FROM leased
UNION ALL
SELECT NULL, endpoint_no, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, floor
FROM rest LEFT JOIN notified ON true

-- name: claim_contents
-- $1 and $2 are the earliest and the latest time in $3, the times of the messages. With these two values, the planner
-- skips partitions of other times. Payloads of more than $5 bytes are NULL, with their size. `OFFSET 0` makes PostgreSQL
-- look up each message. Otherwise a plan that was made while the table was empty reads all messages between $1 and $2.
SELECT m.seq, CASE WHEN m.size <= $5::integer THEN m.payload END, m.trace, m.size
FROM unnest($3::timestamptz[], $4::bigint[]) AS r (at, seq)
CROSS JOIN LATERAL (
  SELECT m.seq, m.payload, m.trace, octet_length(m.payload) AS size FROM hookline.message m
  WHERE m.created_at = r.at AND m.seq = r.seq AND m.created_at >= $1::timestamptz AND m.created_at <= $2::timestamptz
  OFFSET 0) m

-- name: claim_return
-- Ends the leases of deliveries whose large payloads do not fit the byte budget. These deliveries stay in their lanes.
-- The claim inserts wake tokens for these lanes separately.
UPDATE hookline.delivery SET state = 0, claim = NULL, lease_until = NULL, counted = false
WHERE id = ANY ($1::bigint[]) AND state + 0 = 2 AND claim = $2::bigint

-- name: claim_bury
-- Turns deliveries that this claim has leased into dead letters, because they must not be sent: their payload was
-- deleted, or their time budget is over. $3 reason, $4 detail.
WITH gone AS (
       DELETE FROM hookline.delivery WHERE id = ANY ($1::bigint[]) AND state + 0 = 2 AND claim = $2::bigint RETURNING *),
     turns AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT app_no, endpoint_no, now(), now(), string_agg(to_json(ordering_key)::text, ',') FROM gone
       WHERE ordering_key IS NOT NULL GROUP BY app_no, endpoint_no),
     dead AS (
       INSERT INTO hookline.dead_letter (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts,
                                         sent, policy, last_status, reason, detail, died_at, ordering_key)
       SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent, policy, last_status,
              $3::text, $4::text, now(), ordering_key
       FROM gone)
SELECT id, endpoint_no, message_id, message_at, event_type, sent, trigger, now() AS died_at,
       (SELECT m.trace FROM hookline.message m WHERE m.created_at = message_at AND m.seq = message_seq) AS trace
FROM gone

-- name: claim_next
-- Includes wake tokens of the last second: one may have become due since the claim that found nothing. A wake token
-- that another worker has locked counts too, so this worker keeps polling while it is locked.
SELECT now() AS now, (SELECT min(at) FROM hookline.wake WHERE at > now() - interval '1 second') AS next_at

-- name: claim_peek
-- The time of the earliest wake token, of those at or after $1. Due wake tokens of the endpoints $2 do not count. `IS TRUE`
-- as in `claim_lanes_in_crowd`.
SELECT now() AS now,
       (SELECT min(at) FROM hookline.wake
        WHERE at >= $1::timestamptz
              AND (at > now() OR (endpoint_no NOT IN (SELECT unnest($2::bigint[]))) IS TRUE)) AS next_at

-- name: release
WITH r AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS r (id, claim)),
     kept AS (
       UPDATE hookline.delivery d
       SET state = 0, claim = NULL, lease_until = NULL, counted = false
       FROM r WHERE d.id = r.id AND d.state + 0 = 2 AND d.claim = r.claim
       RETURNING d.id, r.claim, d.app_no, d.endpoint_no, d.due_at),
     woken AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor)
       SELECT app_no, endpoint_no, greatest(now(), min(due_at)), min(due_at) FROM kept GROUP BY app_no, endpoint_no)
SELECT id, claim, (SELECT hookline.announce()) FROM kept

-- name: sleep
-- Takes the sleepers' lock, then checks whether a transaction is adding work: see hookline.announce. Returns true, and
-- keeps the lock, if the worker may sleep. Returns false, without the lock, if a transaction may be adding work.
SELECT CASE WHEN NOT pg_try_advisory_lock_shared(1214541, 1) THEN false
            WHEN pg_try_advisory_lock(1214541, 2) THEN pg_advisory_unlock(1214541, 2)
            ELSE NOT pg_advisory_unlock_shared(1214541, 1) END

-- name: awake
SELECT pg_advisory_unlock_shared(1214541, 1)
