-- Statistics of a period. A count reads an index and stops after :max_rows rows. Ids begin with their time, so an index
-- on ids is also an index on time. Most statements pass lanes and applications as arrays to `= ANY`, so that the
-- planner knows which lanes are read. In a join, the planner assumes that each lane has the average number of rows. If
-- one lane had a long backlog, the planner would choose to read that backlog for each idle lane.

-- name: stats_snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: stats_planner
-- Disables sequential scans and bitmap scans, for this transaction only.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)

-- name: stats_apps
SELECT no FROM hookline.application WHERE org_id = :org_id ORDER BY no

-- name: stats_endpoints
SELECT e.no FROM unnest(:apps::bigint[]) AS a (no) JOIN hookline.endpoint e ON e.app_no = a.no ORDER BY e.no

-- name: stats_messages
SELECT count(*) FROM (
  SELECT FROM hookline.message m WHERE m.app_no = ANY (:apps::bigint[]) AND m.id >= :first::text AND m.id < :last::text
  LIMIT :max_rows::bigint) c

-- name: stats_waiting
SELECT count(*) FILTER (WHERE c.state = 0), count(*) FILTER (WHERE c.state = 1) FROM (
  SELECT d.state FROM hookline.delivery d WHERE d.endpoint_no = ANY (:endpoints::bigint[]) AND d.state < 2
  LIMIT :max_rows::bigint) c

-- name: stats_queued
SELECT count(*) FROM (
  SELECT FROM unnest(:endpoints::bigint[]) AS e (no)
  CROSS JOIN LATERAL (SELECT FROM hookline.delivery d WHERE d.endpoint_no = e.no AND d.state = 6 OFFSET 0) d
  LIMIT :max_rows::bigint) c

-- name: stats_delivering
-- Needs no limit: it reads the leased deliveries of all lanes, and there are no more of them than slots of all workers.
SELECT count(*) FROM hookline.delivery WHERE state = 2 AND lease_until > '2000-01-01' AND endpoint_no = ANY (:endpoints::bigint[])

-- name: stats_attempts
SELECT count(*) FROM (
  SELECT FROM hookline.attempt t WHERE t.endpoint_no = ANY (:endpoints::bigint[]) AND t.id >= :first::text AND t.id < :last::text
  LIMIT :max_rows::bigint) c

-- name: stats_failed
-- Failed attempts by outcome.
SELECT count(*) FILTER (WHERE c.outcome = 'retry'), count(*) FILTER (WHERE c.outcome = 'dead') FROM (
  SELECT t.outcome FROM hookline.attempt t
  WHERE t.endpoint_no = ANY (:endpoints::bigint[]) AND t.id >= :first::text AND t.id < :last::text AND t.outcome <> 'delivered'
  LIMIT :max_rows::bigint) c

-- name: stats_dead
SELECT count(*) FILTER (WHERE NOT c.resolved), count(*) FILTER (WHERE c.resolved) FROM (
  SELECT l.resolved_at IS NOT NULL AS resolved FROM hookline.dead_letter l
  WHERE l.endpoint_no = ANY (:endpoints::bigint[]) AND l.died_at >= :since::timestamptz AND l.died_at < :until::timestamptz
  LIMIT :max_rows::bigint) c

-- name: stats_dead_open
SELECT count(*) FROM (
  SELECT FROM hookline.dead_letter l WHERE l.endpoint_no = ANY (:endpoints::bigint[]) AND l.resolved_at IS NULL
  LIMIT :max_rows::bigint) c
