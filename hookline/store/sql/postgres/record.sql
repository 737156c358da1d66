-- Record: lock the lanes in the order of their endpoints' numbers, finish or reschedule the deliveries that still have
-- the claim token of the result, write the attempts, then update the lanes.
-- A lane is healthy if its circuit is closed, `failures` is 0 and `failing_since` is NULL.

-- name: record_plain
-- The usual batch: everything was delivered and no lane changes. It is one statement and its own transaction. $1
-- receipts sorted by delivery, $2 the endpoints of the receipts, $3 the endpoints whose lanes get a wake token, $4 for
-- each endpoint of $3 the ordering keys of its delivered deliveries: the next delivery of these queues may be sent. The
-- statement writes nothing if the lane of any endpoint of $2 is not healthy.
WITH r AS MATERIALIZED (
       SELECT * FROM unnest($1::hookline.receipt[])
       WHERE NOT EXISTS (
         SELECT FROM hookline.lane l
         WHERE l.endpoint_no = ANY ($2::bigint[]) AND (l.circuit <> 0 OR l.failures > 0 OR l.failing_since IS NOT NULL))),
     gone AS (
       DELETE FROM hookline.delivery d USING r WHERE d.id = r.delivery_id AND d.state + 0 = 2 AND d.claim = r.claim
       RETURNING d.app_no, d.endpoint_no, d.message_seq, d.message_at, d.message_id, d.event_type, d.attempts, d.sent, d.trigger,
                 r.*),
     done AS (
       INSERT INTO hookline.delivery_done (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts,
                                           sent, finished_at)
       SELECT delivery_id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts + 1, sent + 1, now()
       FROM gone),
     tried AS (
       INSERT INTO hookline.attempt (id, delivery_id, app_no, endpoint_no, message_id, event_type, number, trigger, outcome, probe,
                                     started_at, status_code, detail, address, response_headers, response_body, truncated,
                                     dns_us, connect_us, tls_us, first_byte_us, total_us, recorded_at)
       SELECT attempt_id, delivery_id, app_no, endpoint_no, message_id, event_type, sent + 1, trigger, 'delivered', false,
              started_at, status_code, detail, address, response_headers, response_body, truncated,
              dns_us, connect_us, tls_us, first_byte_us, total_us, now()
       FROM gone),
     woken AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT (SELECT l.app_no FROM hookline.lane l WHERE l.endpoint_no = w.no), no, now(), now(), keys
       FROM unnest($3::bigint[], $4::text[]) AS w (no, keys) WHERE EXISTS (SELECT FROM gone)
       RETURNING 1)
SELECT count(*) AS recorded, CASE WHEN count(*) < cardinality($1) THEN array_agg(attempt_id) END AS held,
       (SELECT hookline.announce() FROM woken LIMIT 1)
FROM gone

-- name: record_lanes
-- $1 all endpoints of the batch, $2 those whose lanes the batch must change (see `moves_lane`). Locks the lanes of $2
-- and the lanes of $1 that are not healthy. Other lanes are neither locked nor written.
SELECT l.*, now() AS now FROM hookline.lane l
WHERE l.endpoint_no = ANY ($1::bigint[])
  AND (l.endpoint_no = ANY ($2::bigint[]) OR l.circuit <> 0 OR l.failures > 0 OR l.failing_since IS NOT NULL)
ORDER BY l.endpoint_no
FOR NO KEY UPDATE

-- name: record_moves
-- The arrays are sorted by id, so that all recorders lock deliveries in the same order. Kinds: 0 delivered, 1 retry, 2
-- dead.
WITH r AS MATERIALIZED (
       SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::timestamptz[], $5::integer[], $6::real[],
                            $7::integer[], $8::text[], $9::text[], $10::timestamptz[])
                     AS r (id, claim, kind, due_at, spent, delay, status, reason, detail, reckoned)),
     gone AS (
       DELETE FROM hookline.delivery d USING r
       WHERE d.id = r.id AND d.state + 0 = 2 AND d.claim = r.claim AND r.kind <> 1
       RETURNING d.id, d.claim, d.app_no, d.endpoint_no, d.message_seq, d.message_at, d.message_id, d.event_type,
                 d.attempts + r.spent AS attempts, d.sent + 1 AS sent, d.policy, d.ordering_key, r.kind, r.status, r.reason,
                 r.detail),
     done AS (
       INSERT INTO hookline.delivery_done (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts,
                                           sent, finished_at)
       SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent, now()
       FROM gone WHERE kind = 0),
     dead AS (
       INSERT INTO hookline.dead_letter (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts,
                                         sent, policy, last_status, reason, detail, died_at, ordering_key)
       SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent, policy, status, reason,
              detail, now(), ordering_key
       FROM gone WHERE kind = 2),
     kept AS (
       UPDATE hookline.delivery d
       -- If the clock was set back while the request ran, `reckoned` (the worker's estimate of the time) is too late:
       -- see `rules/set_back.py`.
       SET state = 1, attempts = d.attempts + r.spent, sent = d.sent + 1,
           due_at = CASE WHEN r.reckoned > now() + interval '1 s' THEN r.due_at - (r.reckoned - now()) ELSE r.due_at END, last_delay = r.delay,
           last_status = r.status, claim = NULL, lease_until = NULL, counted = false
       FROM r WHERE d.id = r.id AND d.state + 0 = 2 AND d.claim = r.claim AND r.kind = 1
       RETURNING d.id, r.claim, d.app_no, d.endpoint_no, d.due_at),
     woken AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor)
       SELECT app_no, endpoint_no, greatest(now(), min(due_at)), min(due_at) FROM kept GROUP BY app_no, endpoint_no),
     turns AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT app_no, endpoint_no, now(), now(), string_agg(to_json(ordering_key)::text, ',') FROM gone
       WHERE ordering_key IS NOT NULL GROUP BY app_no, endpoint_no
       RETURNING 1)
SELECT id, claim, now() AS now, (SELECT hookline.announce() FROM turns LIMIT 1) FROM gone
UNION ALL
SELECT id, claim, now(), (SELECT hookline.announce() WHERE EXISTS (SELECT FROM kept WHERE due_at <= now() + interval '1 s')) FROM kept

-- name: record_wake
-- $1 endpoints whose lanes wait for slots. Each of these lanes already has a wake token for a later time. The `floor`
-- of that wake token is the earliest due time of the waiting deliveries. The new wake token can have now() as `floor`,
-- because a claim consumes all wake tokens of a lane and uses the lowest `floor`.
WITH w AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor)
       SELECT (SELECT l.app_no FROM hookline.lane l WHERE l.endpoint_no = no), no, now(), now() FROM unnest($1::bigint[]) AS no
       RETURNING 1)
SELECT hookline.announce() FROM w LIMIT 1

-- name: lane_write
UPDATE hookline.lane l
SET status = r.status, revision = r.revision, circuit = r.circuit, epoch = r.epoch, failures = r.failures,
    failing_since = r.failing_since, trips = r.trips, opened_at = r.opened_at, probe_at = r.probe_at, "window" = r."window",
    window_at = r.window_at, in_flight = r.in_flight, waiting_floor = r.waiting_floor, tat = r.tat, held_until = r.held_until,
    pace = r.pace, pace_at = r.pace_at, pace_top = r.pace_top, slowed_at = r.slowed_at, turn_at = r.turn_at
FROM unnest($1::bigint[], $2::smallint[], $3::integer[], $4::smallint[], $5::integer[], $6::integer[], $7::timestamptz[],
            $8::integer[], $9::timestamptz[], $10::timestamptz[], $11::integer[], $12::timestamptz[], $13::integer[],
            $14::timestamptz[], $15::timestamptz[], $16::timestamptz[], $17::float8[], $18::timestamptz[], $19::float8[],
            $20::timestamptz[], $21::timestamptz[])
     AS r (endpoint_no, status, revision, circuit, epoch, failures, failing_since, trips, opened_at, probe_at, "window",
           window_at, in_flight, waiting_floor, tat, held_until, pace, pace_at, pace_top, slowed_at, turn_at)
WHERE l.endpoint_no = r.endpoint_no

-- name: lane_events_write
INSERT INTO hookline.lane_event (endpoint_no, app_no, at, kind, cause, actor, actor_name)
SELECT r.endpoint_no, l.app_no, r.at, r.kind, r.cause, r.actor, r.actor_name
FROM unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[])
     WITH ORDINALITY AS r (endpoint_no, at, kind, cause, actor, actor_name, ord)
JOIN hookline.lane l USING (endpoint_no)
ORDER BY r.ord

-- name: endpoints_disable
-- Endpoints are locked after their lanes.
UPDATE hookline.endpoint e SET status = 2, status_reason = r.cause, revision = e.revision + 1, updated_at = now()
FROM unnest($1::bigint[], $2::text[]) AS r (no, cause)
WHERE e.no = r.no AND e.status < 2

-- name: wake_lanes
-- Insert wake tokens. If one of them is due within a second, notify sleeping workers: they do not notice that a request
-- has ended and that the lane may send again.
WITH w AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor)
       SELECT (SELECT l.app_no FROM hookline.lane l WHERE l.endpoint_no = w.no), w.*
       FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[]) AS w (no, at, floor)
       RETURNING at)
SELECT hookline.announce() FROM w WHERE at <= now() + interval '1 s' LIMIT 1
