-- Claim: one transaction. `claim_lanes` locks, `rules/lane/admission.py` decides, `claim_take` leases, `lane_write` keeps the books.

-- part: serve
-- The lanes of `looked`, which are locked. $3 most tokens without a lane to clear away.
     lanes AS MATERIALIZED (SELECT DISTINCT ON (endpoint_no) * FROM looked ORDER BY endpoint_no, turn, at),
     -- Every visible token of those lanes, future ones too: kept ones would pile up beside the one that is armed anew.
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
       l.*, least(f.floor, l.waiting_floor) AS floor, f.keys, now() AS now, (SELECT count(*) FROM looked) AS tokens,
       -- A claim that a crash of the server undoes is made again; record waits for the disk, and for every claim before it.
       (SELECT set_config('synchronous_commit', 'off', true))
FROM lanes l
-- FULL, though each has some: the planner, which expects one lane, would otherwise compare each with all.
FULL JOIN (SELECT endpoint_no, min(floor) AS floor, string_agg(keys, ',') AS keys FROM mine GROUP BY endpoint_no) f
     USING (endpoint_no)
ORDER BY l.turn, l.at

-- name: claim_lanes
-- Token and lane are locked in one join, and the lane's columns come from the locked row: the snapshot is older than the lock.
-- $1 watermark, $2 most tokens.
WITH looked AS MATERIALIZED (
       SELECT NULL::bigint AS turn, w.at, l.*
       FROM hookline.wake w JOIN hookline.lane l USING (endpoint_no)
       WHERE w.at <= now() AND w.at >= $1::timestamptz
       ORDER BY w.at LIMIT $2::integer
       FOR NO KEY UPDATE OF w, l SKIP LOCKED),
     -- include: serve
SELECT 0 AS spared,
       -- include: served

-- name: claim_lanes_in_turn
-- While there is a line (`rules/claim/rotation.py`): half of the tokens are those of the applications whose turn it is, at most $5 that
-- have something ready, from below $4 on. Downwards, because an application's newest tokens come first then: those that a long
-- transaction keeps lie behind. Where nobody is left, the last step finds NULL. Comparing rows fences off `wake_at`. Where one of
-- them has a backlog it will get more than one slot: the other half then looks at no more lanes than it has slots.
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
     front AS MATERIALIZED (
       SELECT NULL::bigint AS turn, w.id, w.at, NULL::boolean AS backlogged, l.*
       FROM hookline.wake w JOIN hookline.lane l USING (endpoint_no)
       WHERE w.at <= now() AND w.at >= $1 AND w.id <> ALL (ARRAY(SELECT id FROM turns))
       ORDER BY w.at LIMIT (SELECT CASE WHEN bool_or(backlogged) THEN $2 - $2 / 2 ELSE $2 - count(*) END FROM turns)
       FOR NO KEY UPDATE OF w, l SKIP LOCKED),
     looked AS MATERIALIZED (SELECT * FROM turns UNION ALL SELECT * FROM front),
     -- include: serve
SELECT (SELECT no FROM app ORDER BY place DESC LIMIT 1) AS last_app, (SELECT max(took) FROM app) AS took,
       -- Tokens that were not looked at although $2 were asked for: there may be more.
       (SELECT CASE WHEN bool_or(backlogged) THEN greatest(0, $2 / 2 - count(*)) ELSE 0 END FROM turns) AS spared,
       -- include: served

-- name: app_paces_lock
-- Those of the lanes that are locked: a lane has a rate only while its application has a pace.
SELECT app_no, tat, tail_at FROM hookline.app_pace WHERE app_no = ANY ($1::bigint[]) ORDER BY app_no FOR NO KEY UPDATE

-- name: app_paces_write
UPDATE hookline.app_pace p SET tat = r.tat, tail_at = r.tail_at
FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[]) AS r (app_no, tat, tail_at) WHERE p.app_no = r.app_no

-- name: claim_take
-- $1 endpoints, $2 quotas, $3 floors, $4 when to look again, $5 endpoints whose claims are counted, $6 claim token,
-- $7 lease in seconds, $8 the endpoints' applications. Rows without an id say what was left in a lane.
WITH p AS MATERIALIZED (
       SELECT * FROM unnest($1::bigint[], $2::integer[], $3::timestamptz[], $4::timestamptz[], $8::bigint[])
                     AS p (endpoint_no, quota, floor, rest_at, app_no)),
     -- Read without locks: what another worker holds is armed again too, whatever becomes of it there.
     cand AS MATERIALIZED (
       SELECT p.endpoint_no, d.id, d.due_at, d.due_at <= now()
              AND row_number() OVER (PARTITION BY p.endpoint_no ORDER BY d.due_at, d.id) <= p.quota AS wanted
       FROM p CROSS JOIN LATERAL (
         SELECT id, due_at FROM hookline.delivery
         WHERE endpoint_no = p.endpoint_no AND state < 2 AND due_at >= p.floor
         ORDER BY due_at, id LIMIT p.quota + 1) d),
     -- `state + 0`: a fence that no partial index matches, or the planner drifts onto the one full of dead rows.
     took AS MATERIALIZED (
       SELECT id FROM hookline.delivery
       WHERE id = ANY (ARRAY(SELECT id FROM cand WHERE wanted)) AND state + 0 < 2 AND due_at <= now()
       FOR NO KEY UPDATE SKIP LOCKED),
     rest AS MATERIALIZED (
       SELECT endpoint_no, min(due_at) AS floor FROM cand WHERE id NOT IN (SELECT id FROM took) GROUP BY endpoint_no),
     -- One token for what was left. At now, never at an old due instant: that would jump the queue. A lane that waits for room
     -- is armed by whoever frees some.
     armed AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor)
       SELECT p.app_no, t.endpoint_no, greatest(now(), t.floor, p.rest_at), t.floor
       FROM rest t JOIN p USING (endpoint_no)
       WHERE p.rest_at IS NOT NULL
       RETURNING at),
     -- A worker that sleeps may have room for what this one leaves.
     told AS MATERIALIZED (SELECT hookline.announce() FROM armed WHERE at <= now() + interval '1 s' LIMIT 1),
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
FROM rest LEFT JOIN told ON true

-- name: claim_contents
-- $1 and $2, the oldest and the newest instant, prune the partitions when the statement is planned.
SELECT m.seq, m.payload, m.trace
FROM unnest($3::timestamptz[], $4::bigint[]) AS r (at, seq)
JOIN hookline.message m ON m.created_at = r.at AND m.seq = r.seq
WHERE m.created_at >= $1::timestamptz AND m.created_at <= $2::timestamptz

-- name: claim_unsendable
-- A delivery whose payload is gone can never be sent: it must not hold up its lane.
WITH gone AS (
       DELETE FROM hookline.delivery WHERE id = ANY ($1::bigint[]) AND state + 0 = 2 AND claim = $2::bigint RETURNING *),
     turns AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT app_no, endpoint_no, now(), now(), string_agg(to_json(ordering_key)::text, ',') FROM gone
       WHERE ordering_key IS NOT NULL GROUP BY app_no, endpoint_no)
INSERT INTO hookline.dead_letter (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent,
                                  policy, last_status, reason, detail, died_at, ordering_key)
SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent, policy, last_status,
       'unsendable', 'the payload is gone', now(), ordering_key
FROM gone
RETURNING id, endpoint_no, message_id, message_at, sent, died_at

-- name: claim_next
-- From a second ago on: a token may have fallen due since the claim that found nothing. One that another worker has locked
-- counts too, and keeps us looking for as long as it is locked.
SELECT now() AS now, (SELECT min(at) FROM hookline.wake WHERE at > now() - interval '1 second') AS next_at

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
-- Share the sleepers' lock, then look whether anybody is adding work: see hookline.announce. Whether we may sleep.
SELECT CASE WHEN NOT pg_try_advisory_lock_shared(1214541, 1) THEN false
            WHEN pg_try_advisory_lock(1214541, 2) THEN pg_advisory_unlock(1214541, 2)
            ELSE NOT pg_advisory_unlock_shared(1214541, 1) END

-- name: awake
SELECT pg_advisory_unlock_shared(1214541, 1)
