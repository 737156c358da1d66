-- Lanes that want somebody's attention, and what waits in those of one tenant.

-- name: troubled_numbers
SELECT n.endpoint_no, n.status > 0 OR n.circuit IN (1, 2) OR coalesce(n.held_until, 0) > :now AS held FROM lane n
 WHERE n.status < 3 AND (n.status > 0 OR n.circuit > 0 OR n.held_until > :now OR n.failing_since IS NOT NULL
                            OR n.pace IS NOT NULL)
   AND (:app_no IS NULL OR n.app_no = :app_no)
   AND (:org_id IS NULL OR EXISTS (SELECT 1 FROM application a WHERE a.no = n.app_no AND a.org_id = :org_id))
 ORDER BY held DESC, n.failing_since IS NULL, n.failing_since, n.endpoint_no
 LIMIT :most;

-- name: troubled_dead
-- Of the last dead letters of all: by lane, those with the most first.
SELECT l.endpoint_no FROM (
  SELECT endpoint_no FROM dead_letter WHERE resolved_at IS NULL AND died_at > 0 ORDER BY died_at DESC LIMIT :looked_at) l
  JOIN lane n ON n.endpoint_no = l.endpoint_no AND n.status < 3
 GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT :most;

-- name: troubled_dead_of
-- Likewise, of any dead letters of these applications.
SELECT l.endpoint_no FROM (
  SELECT d.endpoint_no FROM application a CROSS JOIN dead_letter d
   WHERE a.org_id = :org_id AND a.deleted_at IS NULL AND (:app_no IS NULL OR a.no = :app_no)
     AND d.app_no = a.no AND d.resolved_at IS NULL LIMIT :looked_at) l
  JOIN lane n ON n.endpoint_no = l.endpoint_no AND n.status < 3
 GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT :most;

-- name: troubled_about
SELECT a.org_id AS org_id, a.name AS app_name,
       (SELECT count(*) FROM (SELECT 1 FROM dead_letter l WHERE l.endpoint_no = :no AND l.resolved_at IS NULL
                               LIMIT :bound)) AS dead,
       (SELECT l.died_at FROM dead_letter l WHERE l.endpoint_no = :no AND l.resolved_at IS NULL
         ORDER BY l.died_at LIMIT 1) AS dead_since,
       (SELECT v.at FROM lane_event v WHERE v.endpoint_no = :no AND v.kind IN ('endpoint_paused', 'endpoint_disabled')
         ORDER BY v.id DESC LIMIT 1) AS stopped_at
  FROM endpoint e JOIN application a ON a.no = e.app_no WHERE e.no = :no;

-- part: backlog_lanes
SELECT n.endpoint_no, n.status > 0 OR n.circuit IN (1, 2) OR coalesce(n.held_until, 0) > :now AS held
  FROM application a CROSS JOIN endpoint e ON e.app_no = a.no CROSS JOIN lane n ON n.endpoint_no = e.no
 WHERE n.status < 3 AND a.org_id = :org_id AND (:app_no IS NULL OR a.no = :app_no)

-- name: backlog_lanes
SELECT count(*), coalesce(sum(held), 0) FROM (
-- include: backlog_lanes
);

-- name: backlog_open
-- The lanes first, and each one's deliveries along its index: CROSS JOIN keeps that order.
SELECT count(*) FROM (
  SELECT 1 FROM (
-- include: backlog_lanes
  ) l CROSS JOIN delivery d WHERE l.held = :held AND d.endpoint_no = l.endpoint_no AND d.state < 2
  UNION ALL
  SELECT 1 FROM (
-- include: backlog_lanes
  ) l CROSS JOIN delivery d WHERE l.held = :held AND d.endpoint_no = l.endpoint_no AND d.state = 6
  LIMIT :bound);

-- name: backlog_oldest
SELECT min((SELECT d.due_at FROM delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 ORDER BY d.due_at LIMIT 1))
  FROM (
-- include: backlog_lanes
  ) l WHERE NOT l.held;
