-- Retention. Drops the partitions of whole days. If an open delivery or a dead letter needs rows of a day, deletes
-- only the other rows.

-- name: retire_partitions
-- The daily partitions that end before the cutoff, oldest first.
SELECT p.relname AS parent, c.relname AS name, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
FROM pg_inherits i
JOIN pg_class p ON p.oid = i.inhparent
JOIN pg_class c ON c.oid = i.inhrelid
WHERE p.relnamespace = 'hookline'::regnamespace AND c.relname ~ '^(message|delivery_done|attempt)_[0-9]{8}$'
  AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1
      <= ((now() - make_interval(days => $1::integer)) AT TIME ZONE 'UTC')::date
ORDER BY day, parent

-- name: retire_needed
-- Whether an open delivery or a dead letter belongs to a message that was accepted at $1 or later, and before $2. For a
-- partition of attempts, $1 is in the far past, because the message may be older than its attempts.
SELECT EXISTS (SELECT FROM hookline.dead_letter WHERE message_at >= $1::timestamptz AND message_at < $2::timestamptz)
    OR EXISTS (SELECT FROM hookline.delivery WHERE message_at >= $1::timestamptz AND message_at < $2::timestamptz)

-- name: retire_messages
DELETE FROM hookline.message WHERE (created_at, seq) IN (
  SELECT m.created_at, m.seq FROM hookline.message m
  WHERE m.created_at >= $1::timestamptz AND m.created_at < $2::timestamptz
    AND NOT EXISTS (SELECT FROM hookline.delivery d WHERE d.message_id = m.id)
    AND NOT EXISTS (SELECT FROM hookline.dead_letter l WHERE l.message_id = m.id)
  LIMIT $3::integer)
  AND created_at >= $1::timestamptz AND created_at < $2::timestamptz

-- name: retire_attempts
WITH x AS MATERIALIZED (
       SELECT a.tableoid, a.ctid FROM hookline.attempt a
       WHERE a.recorded_at >= $1::timestamptz AND a.recorded_at < $2::timestamptz
         AND NOT EXISTS (SELECT FROM hookline.delivery d WHERE d.id = a.delivery_id)
         AND NOT EXISTS (SELECT FROM hookline.dead_letter l WHERE l.id = a.delivery_id)
       LIMIT $3::integer)
DELETE FROM hookline.attempt a USING x
WHERE a.ctid = x.ctid AND a.tableoid = x.tableoid
  AND a.recorded_at >= $1::timestamptz AND a.recorded_at < $2::timestamptz

-- name: retire_done
WITH x AS MATERIALIZED (
       SELECT tableoid, ctid FROM hookline.delivery_done
       WHERE finished_at >= $1::timestamptz AND finished_at < $2::timestamptz LIMIT $3::integer)
DELETE FROM hookline.delivery_done d USING x
WHERE d.ctid = x.ctid AND d.tableoid = x.tableoid AND d.finished_at >= $1::timestamptz AND d.finished_at < $2::timestamptz

-- name: retire_event_id
DELETE FROM hookline.event_id WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM hookline.event_id WHERE created_at < now() - make_interval(days => $1::integer)
  ORDER BY created_at LIMIT $2::integer))

-- name: retire_key
DELETE FROM hookline.idempotency WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM hookline.idempotency WHERE expires_at <= now() ORDER BY expires_at LIMIT $1::integer
  FOR UPDATE SKIP LOCKED))

-- name: retire_lane_event
DELETE FROM hookline.lane_event WHERE id = ANY (ARRAY(
  SELECT id FROM hookline.lane_event WHERE at < now() - make_interval(days => $1::integer) ORDER BY at LIMIT $2::integer))

-- name: retire_dead
-- Returns the number of deleted dead letters, and how many of them were unresolved. An unresolved dead letter may have
-- blocked the queue of its ordering key, so its lane gets a wake token that names the queue.
WITH gone AS (
       DELETE FROM hookline.dead_letter WHERE id = ANY (ARRAY(
         SELECT id FROM hookline.dead_letter WHERE died_at < now() - make_interval(days => $1::integer)
         ORDER BY died_at LIMIT $2::integer FOR UPDATE SKIP LOCKED))
       RETURNING resolved_at, app_no, endpoint_no, ordering_key),
     turns AS (
       INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
       SELECT app_no, endpoint_no, now(), now(), string_agg(to_json(ordering_key)::text, ',') FROM gone
       WHERE ordering_key IS NOT NULL AND resolved_at IS NULL GROUP BY app_no, endpoint_no)
SELECT count(*) AS retired, count(*) FILTER (WHERE resolved_at IS NULL) AS expired FROM gone

-- name: retire_resolved
DELETE FROM hookline.dead_letter WHERE id = ANY (ARRAY(
  SELECT id FROM hookline.dead_letter
  WHERE died_at < now() - make_interval(days => $1::integer) AND resolved_at < now() - make_interval(days => $1::integer)
  ORDER BY died_at LIMIT $2::integer FOR UPDATE SKIP LOCKED))

-- name: make_partitions
SELECT hookline.make_partitions((now() AT TIME ZONE 'UTC')::date, 3)

-- name: retire_answer
DELETE FROM hookline.answer WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM hookline.answer WHERE expires_at <= now() ORDER BY expires_at LIMIT $1::integer FOR UPDATE SKIP LOCKED))

-- name: retire_token
DELETE FROM hookline.revoked_token WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM hookline.revoked_token WHERE expires_at <= now() ORDER BY expires_at LIMIT $1::integer
  FOR UPDATE SKIP LOCKED))

-- name: retire_session
DELETE FROM hookline.session WHERE hash = ANY (ARRAY(
  SELECT hash FROM hookline.session WHERE expires_at <= now() ORDER BY expires_at LIMIT $1::integer
  FOR UPDATE SKIP LOCKED))

-- name: retire_guess
DELETE FROM hookline.guess WHERE subject = ANY (ARRAY(
  SELECT subject FROM hookline.guess WHERE seen_at < now() - make_interval(secs => $1) ORDER BY seen_at
  LIMIT $2::integer FOR UPDATE SKIP LOCKED))

-- name: retire_audit
DELETE FROM hookline.audit WHERE id = ANY (ARRAY(
  SELECT id FROM hookline.audit WHERE at < now() - make_interval(days => $1::integer) ORDER BY at LIMIT $2::integer))

-- name: retire_task
DELETE FROM hookline.task WHERE id = ANY (ARRAY(
  SELECT id FROM hookline.task
  WHERE status <> 'running' AND updated_at < now() - make_interval(days => $1::integer)
  ORDER BY updated_at LIMIT $2::integer))
