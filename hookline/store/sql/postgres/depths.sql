-- Depths: current numbers of open deliveries, lanes, unresolved dead letters, firing alerts and outbox rows.

-- name: depths
-- $1 maximum outbox rows to count. One statement, so one snapshot. `model.Depths` explains when a lane is held back.
WITH lanes AS MATERIALIZED (
       SELECT endpoint_no, status, circuit, coalesce(held_until > now(), false) AS held, pace IS NOT NULL AS slowed
       FROM hookline.lane WHERE status < 3),
     waiting AS MATERIALIZED (
       SELECT endpoint_no, count(*) AS waiting, sum(state) AS scheduled,
              count(*) FILTER (WHERE due_at <= now()) AS due, min(due_at) AS first_due
       FROM hookline.delivery WHERE state < 2 GROUP BY endpoint_no),
     -- A delivery whose endpoint is deleted counts as held back; the sweep will end it.
     placed AS MATERIALIZED (
       SELECT w.*, coalesce(n.status > 0 OR n.circuit IN (1, 2) OR n.held, true) AS back
       FROM waiting w LEFT JOIN lanes n ON n.endpoint_no = w.endpoint_no),
     sums AS (
       SELECT coalesce(sum(waiting), 0)::bigint AS waiting, coalesce(sum(scheduled), 0)::bigint AS scheduled,
              coalesce(sum(due) FILTER (WHERE NOT back), 0)::bigint AS due,
              min(first_due) FILTER (WHERE NOT back AND due > 0) AS oldest_due,
              coalesce(sum(waiting) FILTER (WHERE back), 0)::bigint AS held
       FROM placed)
SELECT now() AS at, s.waiting - s.scheduled AS pending, s.scheduled, s.due, s.oldest_due, s.held,
       (SELECT count(*) FROM hookline.delivery WHERE state = 2) AS delivering,
       (SELECT count(*) FROM hookline.delivery WHERE state = 6) AS queued,
       (SELECT count(*) FROM lanes WHERE status = 1) AS paused,
       (SELECT count(*) FROM lanes WHERE status = 2) AS disabled,
       (SELECT count(*) FROM lanes WHERE lanes.held) AS held_lanes,
       (SELECT count(*) FROM lanes WHERE slowed) AS slowed,
       ARRAY(SELECT (circuit, count(*)) FROM lanes WHERE status = 0 GROUP BY circuit) AS circuits,
       ARRAY(SELECT (reason, count(*)) FROM hookline.dead_letter WHERE resolved_at IS NULL GROUP BY reason) AS dead,
       ARRAY(SELECT (name, severity, count(*)) FROM hookline.alert WHERE resolved_at IS NULL GROUP BY name, severity) AS alerts,
       (SELECT count(*) FROM (SELECT FROM hookline.outbox WHERE error IS NULL LIMIT $1::integer) w) AS outbox_waiting,
       (SELECT greatest(created_at, timestamptz '2000-01-01 00:00+00') FROM hookline.outbox WHERE error IS NULL
        ORDER BY id LIMIT 1) AS outbox_oldest,
       (SELECT count(*) FROM (SELECT FROM hookline.outbox WHERE error IS NOT NULL LIMIT $1::integer) a) AS outbox_set_aside
FROM sums s

-- name: depths_kept
-- If the clock was set back after the count, `at` is in the future. `abs` makes the age positive, so that such a result
-- does not count as new.
SELECT data, abs(extract(epoch FROM now() - at))::float8 AS age FROM hookline.depths

-- name: depths_guard
SELECT pg_try_advisory_xact_lock(1214547, 1)

-- name: depths_keep
INSERT INTO hookline.depths (at, data) VALUES ($1, $2)
ON CONFLICT (one) DO UPDATE SET at = excluded.at, data = excluded.data
