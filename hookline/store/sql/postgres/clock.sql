-- Notice that the database's clock was set back. Then move stored times that are in the future back by the same amount.
-- Stored times that are in the past stay as they are.

-- name: clock_seen
-- Reads `clock_timestamp()` and not `now()`, which is the start of this transaction. If the transaction had to wait,
-- another process may have stored a later `at` since then, and the clock would seem to be set back. The `created_at` of
-- the newest message is also a time that the clock has shown.
SELECT at, clock_timestamp() AS now, back > interval '0' AS moving, was_at,
       (SELECT max(created_at) FROM hookline.message) AS newest
FROM hookline.clock

-- name: clock_start
INSERT INTO hookline.clock (at) VALUES (clock_timestamp()) ON CONFLICT DO NOTHING

-- name: clock_follow
UPDATE hookline.clock SET at = clock_timestamp() WHERE at < clock_timestamp() - interval '1 s'

-- name: clock_move_lanes
-- Locks the lanes in the order of endpoint numbers, as the statements of record.sql do.
UPDATE hookline.lane
SET failing_since = failing_since - $1::interval, opened_at = opened_at - $1, probe_at = probe_at - $1, window_at = window_at - $1,
    waiting_floor = waiting_floor - $1, tat = tat - $1, held_until = held_until - $1, pace_at = pace_at - $1,
    slowed_at = slowed_at - $1, turn_at = turn_at - $1
WHERE endpoint_no = ANY (ARRAY(
  SELECT endpoint_no FROM hookline.lane
  WHERE greatest(failing_since, opened_at, probe_at, window_at, waiting_floor, tat, held_until, pace_at, slowed_at, turn_at) > now()
  ORDER BY endpoint_no FOR NO KEY UPDATE))

-- name: clock_move_paces
UPDATE hookline.app_pace SET tat = tat - $1::interval, tail_at = tail_at - $1
WHERE app_no = ANY (ARRAY(
  SELECT app_no FROM hookline.app_pace WHERE greatest(tat, tail_at) > now() ORDER BY app_no FOR NO KEY UPDATE))

-- name: clock_move_tokens
UPDATE hookline.wake SET at = at - $1::interval, floor = floor - $1 WHERE at > now()

-- name: clock_move_answers
-- Leases of requests with an Idempotency-Key.
UPDATE hookline.answer SET held_until = held_until - $1::interval WHERE held_until > now()

-- name: clock_move_guesses
UPDATE hookline.guess SET since = since - $1::interval, seen_at = seen_at - $1, locked_until = locked_until - $1
WHERE greatest(since, seen_at, locked_until) > now()

-- name: clock_move_alerts
UPDATE hookline.alert_pending SET began_at = began_at - $1::interval WHERE began_at > now()

-- name: clock_turned
-- $2 the latest time that the clock has shown
UPDATE hookline.clock
SET was_at = $2::timestamptz, at = clock_timestamp(), back = $1::interval, moved_id = 0,
    last_id = coalesce((SELECT max(id) FROM hookline.delivery), 0)

-- name: clock_move_deliveries
-- $1 maximum deliveries, $2 length of a lease in seconds. Skips a delivery that was never sent and that was not due
-- when the clock was set back: its publisher chose the due time (`deliver_at`). `was_at` may be some seconds earlier
-- than the latest time that the clock showed, so one minute is added to it. A lease that ends within $2 seconds from
-- now is not moved, because it may have been made after the clock was set back.
WITH x AS MATERIALIZED (
       SELECT id FROM hookline.delivery
       WHERE id > (SELECT moved_id FROM hookline.clock) AND id <= (SELECT last_id FROM hookline.clock)
       ORDER BY id LIMIT $1::integer FOR NO KEY UPDATE),
     moved AS (
       UPDATE hookline.delivery d
       SET due_at = CASE WHEN d.due_at > now() THEN d.due_at - c.back ELSE d.due_at END,
           expires_at = d.expires_at - c.back,
           lease_until = CASE WHEN d.lease_until > now() + make_interval(secs => $2::float8) THEN d.lease_until - c.back
                              ELSE d.lease_until END
       FROM hookline.clock c
       WHERE d.id = ANY (ARRAY(SELECT id FROM x)) 
         AND NOT (d.sent = 0 AND d.due_at > d.message_at AND d.due_at > c.was_at + interval '1 minute'))
UPDATE hookline.clock SET moved_id = coalesce((SELECT max(id) FROM x), last_id),
                          back = CASE WHEN EXISTS (SELECT FROM x) THEN back ELSE interval '0' END
RETURNING (SELECT count(*) FROM x) AS moved
