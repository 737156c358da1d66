-- Sweep. Each kind of work has its own lock. Rows are selected with SKIP LOCKED, in batches.

-- name: sweep_guard
SELECT pg_try_advisory_xact_lock(1214543, :lock::integer)

-- name: sweep_leases_find
-- Takes no locks, because the lanes must be locked before the deliveries, as in record.sql. $1 maximum rows. $2 more
-- seconds than any lease lasts: a lease that ends more than $2 seconds from now was made while the clock was ahead. $3
-- seconds after its end at which a lease counts as lost.
(SELECT id, endpoint_no, counted FROM hookline.delivery
 WHERE state = 2 AND lease_until <= now() - make_interval(secs => $3::float8) ORDER BY lease_until LIMIT $1::integer)
UNION ALL
(SELECT id, endpoint_no, counted FROM hookline.delivery
 WHERE state = 2 AND lease_until > now() + make_interval(secs => $2::float8) ORDER BY lease_until DESC LIMIT $1::integer)
LIMIT $1::integer

-- name: sweep_leases_back
-- A delivery whose lease expired goes to the end of its lane. So a delivery that stalled its worker does not stall the
-- next worker at once.
WITH x AS MATERIALIZED (
       SELECT id, app_no, endpoint_no, counted FROM hookline.delivery
       WHERE id = ANY ($1::bigint[]) AND state + 0 = 2
         AND (lease_until <= now() - make_interval(secs => $3::float8)
              OR lease_until > now() + make_interval(secs => $2::float8))
       ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),
     back AS (
       UPDATE hookline.delivery
       SET state = 0, due_at = now(), claim = NULL, lease_until = NULL, counted = false
       WHERE id = ANY (ARRAY(SELECT id FROM x))),
     woken AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor) SELECT DISTINCT app_no, endpoint_no, now(), now() FROM x)
SELECT x.endpoint_no, x.counted, (SELECT hookline.announce()) FROM x

-- name: sweep_expired
-- Deliveries in a paused lane are checked again in an hour, because a resume restarts their time budget.
WITH x AS MATERIALIZED (
       SELECT d.id, coalesce(l.status, 3) = 1 AS paused
       FROM ((SELECT id, endpoint_no FROM hookline.delivery
              WHERE state < 2 AND expires_at <= now() ORDER BY expires_at LIMIT $1::integer)
             UNION ALL
             (SELECT id, endpoint_no FROM hookline.delivery
              WHERE state = 6 AND expires_at <= now() ORDER BY expires_at LIMIT $1::integer)
             LIMIT $1::integer) d
       LEFT JOIN hookline.lane l USING (endpoint_no)),
     locked AS MATERIALIZED (
       SELECT id FROM hookline.delivery
       WHERE id = ANY (ARRAY(SELECT id FROM x)) AND state + 0 <> 2 AND expires_at <= now()
       FOR UPDATE SKIP LOCKED),
     later AS (
       UPDATE hookline.delivery SET expires_at = now() + interval '1 hour'
       WHERE id = ANY (ARRAY(SELECT id FROM locked WHERE id IN (SELECT id FROM x WHERE paused)))),
     gone AS (
       DELETE FROM hookline.delivery
       WHERE id = ANY (ARRAY(SELECT id FROM locked WHERE id IN (SELECT id FROM x WHERE NOT paused)))
       RETURNING *),
     dead AS (
       INSERT INTO hookline.dead_letter (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts,
                                         sent, policy, last_status, reason, detail, died_at, ordering_key)
       SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent, policy, last_status,
              'budget_exhausted', 'the time budget ended while it waited', now(), ordering_key
       FROM gone),
     turns AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT app_no, endpoint_no, now(), now(), string_agg(to_json(ordering_key)::text, ',') FROM gone
       WHERE ordering_key IS NOT NULL GROUP BY app_no, endpoint_no
       RETURNING 1)
SELECT id, endpoint_no, message_id, message_at, event_type, sent, trigger, now() AS died_at,
       (SELECT m.trace FROM hookline.message m WHERE m.created_at = message_at AND m.seq = message_seq) AS trace,
       (SELECT hookline.announce() FROM turns LIMIT 1)
FROM gone

-- name: sweep_deleted
-- Turns the waiting and queued deliveries of an endpoint into dead letters if its lane is marked as deleted or does not
-- exist. A skip scan of the indexes `delivery_due` and `delivery_queued` finds these endpoints.
WITH RECURSIVE waiting (endpoint_no) AS (
       SELECT min(endpoint_no) FROM hookline.delivery WHERE state < 2
       UNION ALL
       SELECT (SELECT min(d.endpoint_no) FROM hookline.delivery d WHERE d.state < 2 AND d.endpoint_no > w.endpoint_no)
       FROM waiting w WHERE w.endpoint_no IS NOT NULL),
     queued (endpoint_no) AS (
       SELECT min(endpoint_no) FROM hookline.delivery WHERE state = 6
       UNION ALL
       SELECT (SELECT min(d.endpoint_no) FROM hookline.delivery d WHERE d.state = 6 AND d.endpoint_no > q.endpoint_no)
       FROM queued q WHERE q.endpoint_no IS NOT NULL),
     lost AS (
       SELECT endpoint_no FROM (SELECT endpoint_no FROM waiting UNION SELECT endpoint_no FROM queued) w
       WHERE endpoint_no IS NOT NULL
         AND NOT EXISTS (SELECT FROM hookline.lane l WHERE l.endpoint_no = w.endpoint_no AND l.status < 3)),
     x AS MATERIALIZED (
       SELECT d.id FROM lost CROSS JOIN LATERAL (
         (SELECT id FROM hookline.delivery
          WHERE endpoint_no = lost.endpoint_no AND state < 2 ORDER BY due_at, id LIMIT $1::integer)
         UNION ALL
         (SELECT id FROM hookline.delivery
          WHERE endpoint_no = lost.endpoint_no AND state = 6 ORDER BY ordering_key, message_seq LIMIT $1::integer)) d
       LIMIT $1::integer),
     locked AS MATERIALIZED (
       SELECT id FROM hookline.delivery WHERE id = ANY (ARRAY(SELECT id FROM x)) AND state + 0 <> 2 FOR UPDATE SKIP LOCKED),
     gone AS (DELETE FROM hookline.delivery WHERE id = ANY (ARRAY(SELECT id FROM locked)) RETURNING *),
     dead AS (
       INSERT INTO hookline.dead_letter (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts,
                                         sent, policy, last_status, reason, detail, died_at, ordering_key)
       SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent, policy, last_status,
              'endpoint_deleted', 'the endpoint was deleted', now(), ordering_key
       FROM gone)
SELECT id, endpoint_no, message_id, message_at, event_type, sent, trigger, now() AS died_at,
       (SELECT m.trace FROM hookline.message m WHERE m.created_at = message_at AND m.seq = message_seq) AS trace
FROM gone

-- name: sweep_lanes_drop
DELETE FROM hookline.lane
WHERE endpoint_no = ANY (ARRAY(
        SELECT l.endpoint_no FROM hookline.lane l
        WHERE l.status = 3
          AND NOT EXISTS (SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state < 2)
          AND NOT EXISTS (SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state = 6)
        ORDER BY l.endpoint_no LIMIT $1::integer
        FOR UPDATE SKIP LOCKED))

-- name: sweep_tokens
WITH RECURSIVE token (endpoint_no) AS (
       SELECT min(endpoint_no) FROM hookline.wake
       UNION ALL
       SELECT (SELECT min(w.endpoint_no) FROM hookline.wake w WHERE w.endpoint_no > t.endpoint_no)
       FROM token t WHERE t.endpoint_no IS NOT NULL),
     x AS MATERIALIZED (
       SELECT w.id FROM token t CROSS JOIN LATERAL (
         SELECT id FROM hookline.wake WHERE endpoint_no = t.endpoint_no ORDER BY endpoint_no LIMIT $1::integer) w
       WHERE t.endpoint_no IS NOT NULL
         AND NOT EXISTS (SELECT FROM hookline.lane l WHERE l.endpoint_no = t.endpoint_no)
       LIMIT $1::integer),
     locked AS MATERIALIZED (
       SELECT id FROM hookline.wake WHERE id = ANY (ARRAY(SELECT id FROM x)) FOR UPDATE SKIP LOCKED)
DELETE FROM hookline.wake WHERE id = ANY (ARRAY(SELECT id FROM locked))

-- name: sweep_failing_dead
-- Counts only the dead letters since the endpoint was last resumed or enabled, because earlier dead letters may have
-- caused the last pause.
WITH many AS (
       SELECT endpoint_no FROM hookline.dead_letter
       WHERE died_at > now() - interval '1 day' AND reason NOT IN ('budget_exhausted', 'endpoint_deleted')
       GROUP BY endpoint_no HAVING count(*) > $1::integer)
SELECT m.endpoint_no, c.count
FROM many m
JOIN hookline.lane l ON l.endpoint_no = m.endpoint_no AND l.status = 0
CROSS JOIN LATERAL (
  SELECT count(*) FROM hookline.dead_letter d
  WHERE d.endpoint_no = m.endpoint_no AND d.reason NOT IN ('budget_exhausted', 'endpoint_deleted')
    AND d.died_at > now() - interval '1 day'
    AND d.died_at > coalesce((
      SELECT max(e.at) FROM hookline.lane_event e
      WHERE e.endpoint_no = m.endpoint_no AND e.kind IN ('endpoint_resumed', 'endpoint_enabled')), '-infinity')) c
WHERE c.count > $1::integer
ORDER BY m.endpoint_no
FOR NO KEY UPDATE OF l SKIP LOCKED

-- name: sweep_failing_long
SELECT endpoint_no, failing_since FROM hookline.lane
WHERE failing_since <= now() - make_interval(secs => $1::float8) AND status = 0 AND circuit <> 0
ORDER BY endpoint_no
-- Skips a locked lane: the transaction that holds the lock may be recording a success.
FOR NO KEY UPDATE SKIP LOCKED

-- name: stuck_lanes
-- Finds active lanes that have waiting deliveries, but no wake token that leads a claim to them in time. Deliveries and
-- their wake token commit together. So one statement reads both: with two snapshots, a delivery could seem to have no
-- wake token. A lane that waits until one of its requests ends is not stuck: the end of that request wakes the lane.
WITH RECURSIVE waiting (endpoint_no) AS (
       SELECT min(endpoint_no) FROM hookline.delivery WHERE state < 2
       UNION ALL
       SELECT (SELECT min(d.endpoint_no) FROM hookline.delivery d WHERE d.state < 2 AND d.endpoint_no > w.endpoint_no)
       FROM waiting w WHERE w.endpoint_no IS NOT NULL)
SELECT l.endpoint_no, d.due_at AS floor
FROM waiting w
JOIN hookline.lane l ON l.endpoint_no = w.endpoint_no AND l.status = 0
CROSS JOIN LATERAL (
  SELECT due_at FROM hookline.delivery WHERE endpoint_no = l.endpoint_no AND state < 2 ORDER BY due_at LIMIT 1) d
WHERE NOT (l.waiting_floor IS NOT NULL AND l.waiting_floor <= d.due_at AND l.in_flight > 0)
  AND NOT EXISTS (
    SELECT FROM hookline.wake t
    WHERE t.endpoint_no = l.endpoint_no AND t.floor <= d.due_at
      AND t.at <= greatest(now(), d.due_at, l.probe_at, l.held_until, l.tat, l.turn_at) + interval '1 minute')
ORDER BY l.endpoint_no

-- name: stuck_lanes_wake
INSERT INTO hookline.wake (app_no, endpoint_no, at, floor)
SELECT (SELECT l.app_no FROM hookline.lane l WHERE l.endpoint_no = r.endpoint_no), r.endpoint_no, greatest(now(), r.floor),
       r.floor
FROM unnest($1::bigint[], $2::timestamptz[]) AS r (endpoint_no, floor)

-- name: stuck_queues
-- Finds queues that have no waiting or leased delivery, whose key no wake token names, and that no dead letter blocks.
WITH RECURSIVE queue (endpoint_no, ordering_key) AS (
       (SELECT endpoint_no, ordering_key FROM hookline.delivery WHERE state = 6 ORDER BY endpoint_no, ordering_key LIMIT 1)
       UNION ALL
       SELECT n.endpoint_no, n.ordering_key FROM queue q CROSS JOIN LATERAL (
         SELECT d.endpoint_no, d.ordering_key FROM hookline.delivery d
         WHERE d.state = 6 AND (d.endpoint_no, d.ordering_key) > (q.endpoint_no, q.ordering_key)
         ORDER BY d.endpoint_no, d.ordering_key LIMIT 1) n),
     -- Read once: comparing each queue with each wake token would take minutes if there are many of both.
     named AS MATERIALIZED (
       SELECT DISTINCT w.endpoint_no, k.key
       FROM (SELECT DISTINCT endpoint_no FROM queue) e
       JOIN hookline.wake w ON w.endpoint_no = e.endpoint_no AND w.keys IS NOT NULL
       CROSS JOIN LATERAL jsonb_array_elements_text(('[' || w.keys || ']')::jsonb) k (key))
SELECT q.endpoint_no, q.ordering_key
FROM queue q
JOIN hookline.lane l ON l.endpoint_no = q.endpoint_no AND l.status < 3
JOIN hookline.endpoint e ON e.no = q.endpoint_no
CROSS JOIN LATERAL (
  SELECT d.message_seq FROM hookline.delivery d
  WHERE d.endpoint_no = q.endpoint_no AND d.ordering_key = q.ordering_key AND d.state = 6 ORDER BY d.message_seq LIMIT 1) head
WHERE NOT EXISTS (
    SELECT FROM hookline.delivery d
    WHERE d.endpoint_no = q.endpoint_no AND d.ordering_key = q.ordering_key AND d.state < 3)
  AND NOT (e.on_death = 'block' AND EXISTS (
    SELECT FROM hookline.dead_letter b
    WHERE b.endpoint_no = q.endpoint_no AND b.ordering_key = q.ordering_key AND b.resolved_at IS NULL
      AND b.message_seq < head.message_seq))
  -- NOT IN reads `named` into a hash table. With NOT EXISTS, a wrong estimate could lead to a nested loop.
  AND (q.endpoint_no, q.ordering_key) NOT IN (SELECT n.endpoint_no, n.key FROM named n)
ORDER BY q.endpoint_no, q.ordering_key

-- name: stuck_queues_wake
INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
SELECT (SELECT l.app_no FROM hookline.lane l WHERE l.endpoint_no = r.endpoint_no), r.endpoint_no, now(), now(),
       string_agg(to_json(ordering_key)::text, ',')
FROM unnest($1::bigint[], $2::text[]) AS r (endpoint_no, ordering_key) GROUP BY endpoint_no
