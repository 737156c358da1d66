-- Statistics: what happened in a stretch of time, counted along indexes and up to a bound. Ids begin with their instant, so
-- the indexes on them are indexes on time. OFFSET 0 keeps each search inside the loop over its lanes or applications.

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
  SELECT FROM unnest($1::bigint[]) AS a (no)
  CROSS JOIN LATERAL (
    SELECT FROM hookline.message m WHERE m.app_no = a.no AND m.id >= $2::text AND m.id < $3::text OFFSET 0) m
  LIMIT $4::bigint) c

-- name: stats_waiting
-- $1 endpoints, $2 the bound.
SELECT count(*) FILTER (WHERE c.state = 0), count(*) FILTER (WHERE c.state = 1) FROM (
  SELECT d.state FROM unnest($1::bigint[]) AS e (no)
  CROSS JOIN LATERAL (SELECT d.state FROM hookline.delivery d WHERE d.endpoint_no = e.no AND d.state < 2 OFFSET 0) d
  LIMIT $2::bigint) c

-- name: stats_delivering
-- Those of all lanes are looked at: no more than the workers have in flight.
SELECT count(*) FROM hookline.delivery WHERE state = 2 AND lease_until > '2000-01-01' AND endpoint_no = ANY ($1::bigint[])

-- name: stats_attempts
-- $1 endpoints, $2 and $3 the ids between, $4 the bound.
SELECT count(*) FROM (
  SELECT FROM unnest($1::bigint[]) AS e (no)
  CROSS JOIN LATERAL (
    SELECT FROM hookline.attempt t WHERE t.endpoint_no = e.no AND t.id >= $2::text AND t.id < $3::text OFFSET 0) t
  LIMIT $4::bigint) c

-- name: stats_failed
-- Likewise, by outcome, those that did not deliver.
SELECT count(*) FILTER (WHERE c.outcome = 'retry'), count(*) FILTER (WHERE c.outcome = 'dead') FROM (
  SELECT t.outcome FROM unnest($1::bigint[]) AS e (no)
  CROSS JOIN LATERAL (
    SELECT t.outcome FROM hookline.attempt t
    WHERE t.endpoint_no = e.no AND t.id >= $2::text AND t.id < $3::text AND t.outcome <> 'delivered' OFFSET 0) t
  LIMIT $4::bigint) c

-- name: stats_dead
-- $1 endpoints, $2 since, $3 until, $4 the bound.
SELECT count(*) FILTER (WHERE NOT c.resolved), count(*) FILTER (WHERE c.resolved) FROM (
  SELECT l.resolved FROM unnest($1::bigint[]) AS e (no)
  CROSS JOIN LATERAL (
    SELECT l.resolved_at IS NOT NULL AS resolved FROM hookline.dead_letter l
    WHERE l.endpoint_no = e.no AND l.died_at >= $2::timestamptz AND l.died_at < $3::timestamptz OFFSET 0) l
  LIMIT $4::bigint) c

-- name: stats_dead_open
-- $1 endpoints, $2 the bound.
SELECT count(*) FROM (
  SELECT FROM unnest($1::bigint[]) AS e (no)
  CROSS JOIN LATERAL (
    SELECT FROM hookline.dead_letter l WHERE l.endpoint_no = e.no AND l.resolved_at IS NULL OFFSET 0) l
  LIMIT $2::bigint) c
