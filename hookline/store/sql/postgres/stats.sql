-- Statistics of a period, counted along indexes up to a limit. Ids begin with their time, so indexes on ids are indexes
-- on time. Lanes and applications are given as `= ANY` and never joined, so that the planner knows them. In a join the
-- planner assumes that each lane has the average number of rows. Beside one lane with a long backlog it would read that
-- backlog for each idle lane.

-- name: stats_snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: stats_planner
-- For this transaction only: never use a sequential scan.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)

-- name: stats_apps
SELECT no FROM hookline.application WHERE org_id = $1 ORDER BY no

-- name: stats_endpoints
SELECT e.no FROM unnest($1::bigint[]) AS a (no) JOIN hookline.endpoint e ON e.app_no = a.no ORDER BY e.no

-- name: stats_messages
-- $1 applications, $2 first and $3 last id, $4 limit.
SELECT count(*) FROM (
  SELECT FROM hookline.message m WHERE m.app_no = ANY ($1::bigint[]) AND m.id >= $2::text AND m.id < $3::text
  LIMIT $4::bigint) c

-- name: stats_waiting
-- $1 endpoints, $2 limit.
SELECT count(*) FILTER (WHERE c.state = 0), count(*) FILTER (WHERE c.state = 1) FROM (
  SELECT d.state FROM hookline.delivery d WHERE d.endpoint_no = ANY ($1::bigint[]) AND d.state < 2
  LIMIT $2::bigint) c

-- name: stats_queued
-- $1 endpoints, $2 limit.
SELECT count(*) FROM (
  SELECT FROM unnest($1::bigint[]) AS e (no)
  CROSS JOIN LATERAL (SELECT FROM hookline.delivery d WHERE d.endpoint_no = e.no AND d.state = 6 OFFSET 0) d
  LIMIT $2::bigint) c

-- name: stats_delivering
-- It reads the leased deliveries of all lanes, which are no more than the workers' slots.
SELECT count(*) FROM hookline.delivery WHERE state = 2 AND lease_until > '2000-01-01' AND endpoint_no = ANY ($1::bigint[])

-- name: stats_attempts
-- $1 endpoints, $2 first and $3 last id, $4 limit.
SELECT count(*) FROM (
  SELECT FROM hookline.attempt t WHERE t.endpoint_no = ANY ($1::bigint[]) AND t.id >= $2::text AND t.id < $3::text
  LIMIT $4::bigint) c

-- name: stats_failed
-- Failed attempts by outcome. $1 endpoints, $2 first and $3 last id, $4 limit.
SELECT count(*) FILTER (WHERE c.outcome = 'retry'), count(*) FILTER (WHERE c.outcome = 'dead') FROM (
  SELECT t.outcome FROM hookline.attempt t
  WHERE t.endpoint_no = ANY ($1::bigint[]) AND t.id >= $2::text AND t.id < $3::text AND t.outcome <> 'delivered'
  LIMIT $4::bigint) c

-- name: stats_dead
-- $1 endpoints, $2 since, $3 until, $4 limit.
SELECT count(*) FILTER (WHERE NOT c.resolved), count(*) FILTER (WHERE c.resolved) FROM (
  SELECT l.resolved_at IS NOT NULL AS resolved FROM hookline.dead_letter l
  WHERE l.endpoint_no = ANY ($1::bigint[]) AND l.died_at >= $2::timestamptz AND l.died_at < $3::timestamptz
  LIMIT $4::bigint) c

-- name: stats_dead_open
-- $1 endpoints, $2 limit.
SELECT count(*) FROM (
  SELECT FROM hookline.dead_letter l WHERE l.endpoint_no = ANY ($1::bigint[]) AND l.resolved_at IS NULL
  LIMIT $2::bigint) c
