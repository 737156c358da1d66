-- Statistics of a period, counted along indexes up to a limit. Ids begin with their time, so indexes on ids are
-- indexes on time. CROSS JOIN makes SQLite loop over the lanes or applications first, and search the index for each.

-- name: stats_snapshot
-- Only PostgreSQL needs this step. On SQLite every transaction reads one snapshot.
SELECT 1 WHERE FALSE;

-- name: stats_planner
-- Only PostgreSQL needs this step, to set planner options. On SQLite, CROSS JOIN and the unary + determine the plan.
SELECT 1 WHERE FALSE;

-- name: stats_apps
SELECT no FROM application WHERE org_id = :org_id;

-- name: stats_endpoints
SELECT e.no FROM json_each(:apps) CROSS JOIN endpoint e WHERE e.app_no = json_each.value;

-- name: stats_messages
SELECT count(*) FROM (
  SELECT 1 FROM json_each(:apps) CROSS JOIN message m
   WHERE m.app_no = json_each.value AND m.id >= :first AND m.id < :last LIMIT :max_rows);

-- name: stats_waiting
SELECT coalesce(sum(state = 0), 0), coalesce(sum(state = 1), 0) FROM (
  SELECT d.state AS state FROM json_each(:endpoints) CROSS JOIN delivery d
   WHERE d.endpoint_no = json_each.value AND d.state < 2 LIMIT :max_rows);

-- name: stats_queued
SELECT count(*) FROM (
  SELECT 1 FROM json_each(:endpoints) CROSS JOIN delivery d
   WHERE d.endpoint_no = json_each.value AND d.state = 6 LIMIT :max_rows);

-- name: stats_delivering
-- This statement reads the leased deliveries of all lanes. There are no more of them than the workers have slots.
SELECT count(*) FROM delivery WHERE state = 2 AND lease_until > 0 AND +endpoint_no IN (SELECT value FROM json_each(:endpoints));

-- name: stats_attempts
SELECT count(*) FROM (
  SELECT 1 FROM json_each(:endpoints) CROSS JOIN attempt t
   WHERE t.endpoint_no = json_each.value AND t.id >= :first AND t.id < :last LIMIT :max_rows);

-- name: stats_failed
-- Failed attempts by outcome.
SELECT coalesce(sum(outcome = 'retry'), 0), coalesce(sum(outcome = 'dead'), 0) FROM (
  SELECT t.outcome AS outcome FROM json_each(:endpoints) CROSS JOIN attempt t
   WHERE t.endpoint_no = json_each.value AND t.id >= :first AND t.id < :last AND t.outcome <> 'delivered' LIMIT :max_rows);

-- name: stats_dead
SELECT coalesce(sum(NOT resolved), 0), coalesce(sum(resolved), 0) FROM (
  SELECT l.resolved_at IS NOT NULL AS resolved FROM json_each(:endpoints) CROSS JOIN dead_letter l
   WHERE l.endpoint_no = json_each.value AND l.died_at >= :since AND l.died_at < :until LIMIT :max_rows);

-- name: stats_dead_open
SELECT count(*) FROM (
  SELECT 1 FROM json_each(:endpoints) CROSS JOIN dead_letter l
   WHERE l.endpoint_no = json_each.value AND l.resolved_at IS NULL LIMIT :max_rows);
