-- Unhealthy lanes, and the health of applications.

-- name: unhealthy_lane_numbers
SELECT n.endpoint_no, n.status > 0 OR n.circuit IN (1, 2) OR coalesce(n.held_until, 0) > :now AS held FROM lane n
 WHERE n.status < 3 AND (n.status > 0 OR n.circuit > 0 OR n.held_until > :now OR n.failing_since IS NOT NULL
                            OR n.pace IS NOT NULL)
   AND (:app_no IS NULL OR n.app_no = :app_no)
   AND (:org_id IS NULL OR EXISTS (SELECT 1 FROM application a WHERE a.no = n.app_no AND a.org_id = :org_id))
 ORDER BY held DESC, n.failing_since IS NULL, n.failing_since, n.endpoint_no
 LIMIT :max_rows;

-- name: unhealthy_lanes_dead
-- Lanes with the most dead letters first. The statement visits a limited number of endpoints with dead letters, one by
-- one along the index, and counts a limited number of dead letters of each endpoint. It covers all organizations, one
-- organization, or one application.
WITH RECURSIVE w (id, app_no, endpoint_no) AS (
  SELECT id, app_no, endpoint_no FROM dead_letter WHERE app_no <= :last AND id = (
    SELECT l.id FROM dead_letter l WHERE l.resolved_at IS NULL AND l.app_no >= :first
     ORDER BY l.app_no, l.endpoint_no LIMIT 1)
  UNION ALL
  SELECT d.id, d.app_no, d.endpoint_no FROM w CROSS JOIN dead_letter d WHERE d.app_no <= :last AND d.id = (
    -- Add no other condition, and keep the `+ 0`. Otherwise SQLite uses only the index's first column and steps over
    -- every dead letter of an endpoint.
    SELECT l.id FROM dead_letter l
     WHERE l.resolved_at IS NULL AND (l.app_no, l.endpoint_no) > (w.app_no + 0, w.endpoint_no + 0)
     ORDER BY l.app_no, l.endpoint_no LIMIT 1))
SELECT f.endpoint_no
  FROM (SELECT w.app_no, w.endpoint_no FROM w CROSS JOIN lane n ON n.endpoint_no = w.endpoint_no AND n.status < 3
          JOIN application a ON a.no = w.app_no AND a.deleted_at IS NULL
         WHERE :org_id IS NULL OR a.org_id = :org_id
         LIMIT :looked_at) f
 ORDER BY (SELECT count(*) FROM (SELECT 1 FROM dead_letter l WHERE l.resolved_at IS NULL AND l.app_no = f.app_no
                                    AND l.endpoint_no = f.endpoint_no LIMIT :compared)) DESC, 1 LIMIT :max_rows;

-- part: app_lanes
SELECT n.endpoint_no, n.status > 0 OR n.circuit IN (1, 2) OR coalesce(n.held_until, 0) > :now AS held,
       n.circuit > 0 OR n.failures > 0 OR n.pace IS NOT NULL AS failing
  FROM (SELECT e.no FROM endpoint e WHERE e.app_no = x.value AND e.deleted_at IS NULL ORDER BY e.id LIMIT :lanes) f
 CROSS JOIN lane n ON n.endpoint_no = f.no AND n.status < 3

-- name: app_health
SELECT x.value AS app_no,
       (SELECT count(*) FROM (
-- include: app_lanes
       )) AS lanes,
       (SELECT coalesce(sum(held OR failing), 0) FROM (
-- include: app_lanes
       )) AS sick,
       (SELECT coalesce(sum(held), 0) FROM (
-- include: app_lanes
       )) AS stopped,
       (SELECT count(*) FROM (
          SELECT 1 FROM (
-- include: app_lanes
          ) l CROSS JOIN delivery d WHERE l.held AND d.endpoint_no = l.endpoint_no AND d.state < 2
          UNION ALL
          SELECT 1 FROM (
-- include: app_lanes
          ) l CROSS JOIN delivery d WHERE l.held AND d.endpoint_no = l.endpoint_no AND d.state = 6
          LIMIT :counted)) AS held,
       (SELECT count(*) FROM (SELECT 1 FROM dead_letter l WHERE l.resolved_at IS NULL AND l.app_no = x.value
                               ORDER BY l.app_no, l.endpoint_no LIMIT :counted)) AS dead
  FROM json_each(:app_nos) x;

-- name: unhealthy_lane_details
WITH x AS MATERIALIZED (
  SELECT e.no, e.app_no, a.org_id, a.name AS app_name, (
           SELECT count(*) FROM (SELECT 1 FROM dead_letter l
                                  WHERE l.resolved_at IS NULL AND l.app_no = e.app_no AND l.endpoint_no = e.no
                                  ORDER BY l.app_no, l.endpoint_no LIMIT :counted)) AS dead
    FROM json_each(:nos) f CROSS JOIN endpoint e ON e.no = f.value JOIN application a ON a.no = e.app_no)
SELECT x.no, x.org_id, x.app_name, x.dead,
       CASE WHEN x.dead > 0 THEN (
         SELECT l.died_at FROM dead_letter l WHERE l.resolved_at IS NULL AND l.app_no = x.app_no AND l.endpoint_no = x.no
          ORDER BY l.died_at LIMIT 1) END AS dead_since,
       (SELECT v.at FROM lane_event v WHERE v.endpoint_no = x.no AND v.kind IN ('endpoint_paused', 'endpoint_disabled')
         ORDER BY v.id DESC LIMIT 1) AS stopped_at
  FROM x;

-- part: backlog_lanes
SELECT n.endpoint_no, n.status > 0 OR n.circuit IN (1, 2) OR coalesce(n.held_until, 0) > :now AS held
  FROM application a CROSS JOIN endpoint e ON e.app_no = a.no CROSS JOIN lane n ON n.endpoint_no = e.no
 WHERE n.status < 3 AND a.org_id = :org_id AND (:app_no IS NULL OR a.no = :app_no)

-- name: backlog
-- Reads the lanes first, and then the deliveries of each lane along an index. CROSS JOIN forces this order.
SELECT (SELECT count(*) FROM (
-- include: backlog_lanes
       )) AS lanes,
       (SELECT coalesce(sum(held), 0) FROM (
-- include: backlog_lanes
       )) AS held_lanes,
       (SELECT count(*) FROM (
          SELECT 1 FROM (
-- include: backlog_lanes
          ) l CROSS JOIN delivery d WHERE NOT l.held AND d.endpoint_no = l.endpoint_no AND d.state < 2
          UNION ALL
          SELECT 1 FROM (
-- include: backlog_lanes
          ) l CROSS JOIN delivery d WHERE NOT l.held AND d.endpoint_no = l.endpoint_no AND d.state = 6
          LIMIT :counted)) AS waiting,
       (SELECT count(*) FROM (
          SELECT 1 FROM (
-- include: backlog_lanes
          ) l CROSS JOIN delivery d WHERE l.held AND d.endpoint_no = l.endpoint_no AND d.state < 2
          UNION ALL
          SELECT 1 FROM (
-- include: backlog_lanes
          ) l CROSS JOIN delivery d WHERE l.held AND d.endpoint_no = l.endpoint_no AND d.state = 6
          LIMIT :counted)) AS held,
       (SELECT min((SELECT d.due_at FROM delivery d
                     WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 ORDER BY d.due_at LIMIT 1))
          FROM (
-- include: backlog_lanes
          ) l WHERE NOT l.held) AS oldest_due;
