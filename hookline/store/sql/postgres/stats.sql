-- Statistics: what happened in a stretch of time, counted along indexes and up to a bound. Ids begin with their instant, so
-- the indexes on them are indexes on time. Lanes and applications are given as `= ANY`, never joined: the planner then knows which
-- they are. Of a lane that it does not know it believes that it has as much as the average one, and beside one with a long
-- backlog it would walk over all of that for each idle one.

-- name: stats_snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: stats_planner
-- For the transaction alone: never a table read from end to end.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)

-- name: stats_apps
SELECT no FROM hookline.application WHERE org_id = $1 ORDER BY no

-- name: stats_endpoints
SELECT e.no FROM unnest($1::bigint[]) AS a (no) JOIN hookline.endpoint e ON e.app_no = a.no ORDER BY e.no

-- name: stats_messages
-- $1 applications, $2 and $3 the ids between, $4 the bound.
SELECT count(*) FROM (
  SELECT FROM hookline.message m WHERE m.app_no = ANY ($1::bigint[]) AND m.id >= $2::text AND m.id < $3::text
  LIMIT $4::bigint) c

-- name: stats_waiting
-- $1 endpoints, $2 the bound.
SELECT count(*) FILTER (WHERE c.state = 0), count(*) FILTER (WHERE c.state = 1) FROM (
  SELECT d.state FROM hookline.delivery d WHERE d.endpoint_no = ANY ($1::bigint[]) AND d.state < 2
  LIMIT $2::bigint) c

-- name: stats_queued
-- Likewise.
SELECT count(*) FROM (
  SELECT FROM unnest($1::bigint[]) AS e (no)
  CROSS JOIN LATERAL (SELECT FROM hookline.delivery d WHERE d.endpoint_no = e.no AND d.state = 6 OFFSET 0) d
  LIMIT $2::bigint) c

-- name: stats_delivering
-- Those of all lanes are looked at: no more than the workers have in flight.
SELECT count(*) FROM hookline.delivery WHERE state = 2 AND lease_until > '2000-01-01' AND endpoint_no = ANY ($1::bigint[])

-- name: stats_attempts
-- $1 endpoints, $2 and $3 the ids between, $4 the bound.
SELECT count(*) FROM (
  SELECT FROM hookline.attempt t WHERE t.endpoint_no = ANY ($1::bigint[]) AND t.id >= $2::text AND t.id < $3::text
  LIMIT $4::bigint) c

-- name: stats_failed
-- Likewise, by outcome, those that did not deliver.
SELECT count(*) FILTER (WHERE c.outcome = 'retry'), count(*) FILTER (WHERE c.outcome = 'dead') FROM (
  SELECT t.outcome FROM hookline.attempt t
  WHERE t.endpoint_no = ANY ($1::bigint[]) AND t.id >= $2::text AND t.id < $3::text AND t.outcome <> 'delivered'
  LIMIT $4::bigint) c

-- name: stats_dead
-- $1 endpoints, $2 since, $3 until, $4 the bound.
SELECT count(*) FILTER (WHERE NOT c.resolved), count(*) FILTER (WHERE c.resolved) FROM (
  SELECT l.resolved_at IS NOT NULL AS resolved FROM hookline.dead_letter l
  WHERE l.endpoint_no = ANY ($1::bigint[]) AND l.died_at >= $2::timestamptz AND l.died_at < $3::timestamptz
  LIMIT $4::bigint) c

-- name: stats_dead_open
-- $1 endpoints, $2 the bound.
SELECT count(*) FROM (
  SELECT FROM hookline.dead_letter l WHERE l.endpoint_no = ANY ($1::bigint[]) AND l.resolved_at IS NULL
  LIMIT $2::bigint) c
