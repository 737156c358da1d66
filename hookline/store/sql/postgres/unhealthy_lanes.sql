-- Unhealthy lanes, and the health of applications.

-- part: held_back
(n.status > 0 OR n.circuit IN (1, 2) OR coalesce(n.held_until > now(), false))

-- name: unhealthy_lane_numbers
SELECT n.endpoint_no,
-- include: held_back
       AS held
FROM hookline.lane n
WHERE n.status < 3 AND (n.status > 0 OR n.circuit > 0 OR n.held_until > now() OR n.failing_since IS NOT NULL
       OR n.pace IS NOT NULL)
  AND (:app_no::bigint IS NULL OR n.app_no = :app_no)
  AND (:org_id::text IS NULL OR EXISTS (SELECT FROM hookline.application a WHERE a.no = n.app_no AND a.org_id = :org_id))
ORDER BY held DESC, n.failing_since NULLS LAST, n.endpoint_no LIMIT :max_rows::integer

-- name: unhealthy_lanes_dead
-- Lanes with the most dead letters first. The statement visits a limited number of endpoints with dead letters, one by
-- one along the index `dead_letter_unresolved`, and counts a limited number of dead letters of each. BETWEEN, and an
-- ORDER BY with the columns of that index, make the planner use it. With `=` the planner reads the whole table if one
-- endpoint has most of its rows.
WITH RECURSIVE found AS (
  (SELECT app_no, endpoint_no FROM hookline.dead_letter WHERE resolved_at IS NULL AND app_no BETWEEN :first::bigint AND :last::bigint
   ORDER BY app_no, endpoint_no LIMIT 1)
  UNION ALL
  SELECT l.app_no, l.endpoint_no FROM found f CROSS JOIN LATERAL (
    SELECT app_no, endpoint_no FROM hookline.dead_letter
    WHERE resolved_at IS NULL AND app_no <= :last AND (app_no, endpoint_no) > (f.app_no, f.endpoint_no)
    ORDER BY app_no, endpoint_no LIMIT 1) l)
SELECT f.endpoint_no
FROM (SELECT f.* FROM found f
      JOIN hookline.lane n ON n.endpoint_no = f.endpoint_no AND n.status < 3
      JOIN hookline.application a ON a.no = f.app_no AND a.deleted_at IS NULL
      WHERE :org_id::text IS NULL OR a.org_id = :org_id
      LIMIT :looked_at::integer) f
ORDER BY (SELECT count(*) FROM (SELECT FROM hookline.dead_letter l
                                WHERE l.resolved_at IS NULL AND l.app_no BETWEEN f.app_no AND f.app_no
                                  AND l.endpoint_no BETWEEN f.endpoint_no AND f.endpoint_no
                                ORDER BY l.app_no, l.endpoint_no LIMIT :compared::integer) c) DESC, 1
LIMIT :max_rows::integer

-- name: app_health
-- The lanes of each application are ordered by endpoint id. BETWEEN and ORDER BY make the planner use the indexes, as
-- in `unhealthy_lanes_dead`.
SELECT x.app_no, s.lanes, s.sick, coalesce(cardinality(s.stopped), 0) AS stopped,
       (SELECT count(*) FROM (SELECT FROM unnest(s.stopped) AS l (endpoint_no) CROSS JOIN LATERAL (
-- include: lane_open
        ) o LIMIT :counted) c) AS held,
       (SELECT count(*) FROM (SELECT FROM hookline.dead_letter l
                              WHERE l.resolved_at IS NULL AND l.app_no BETWEEN x.app_no AND x.app_no
                              ORDER BY l.app_no, l.endpoint_no LIMIT :counted::integer) c) AS dead
FROM unnest(:app_nos::bigint[]) AS x (app_no)
CROSS JOIN LATERAL (
  SELECT count(*) AS lanes, count(*) FILTER (WHERE l.held OR l.failing) AS sick,
         array_agg(l.endpoint_no) FILTER (WHERE l.held) AS stopped
  FROM (SELECT n.endpoint_no, n.circuit > 0 OR n.failures > 0 OR n.pace IS NOT NULL AS failing,
-- include: held_back
               AS held
        FROM (SELECT e.no FROM hookline.endpoint e WHERE e.app_no BETWEEN x.app_no AND x.app_no AND e.deleted_at IS NULL
              ORDER BY e.app_no, e.id LIMIT :lanes::integer) f
        JOIN hookline.lane n ON n.endpoint_no = f.no AND n.status < 3) l) s

-- name: unhealthy_lane_details
-- BETWEEN and ORDER BY make the planner use the indexes whose columns begin with the endpoint or its application. With
-- `=` the planner reads the dead letters and events of all endpoints, ordered by time.
SELECT l.endpoint_no AS no, a.org_id, a.name AS app_name, x.dead,
       CASE WHEN x.dead > 0 THEN (
         SELECT d.died_at FROM hookline.dead_letter d
         WHERE d.resolved_at IS NULL AND d.app_no BETWEEN l.app_no AND l.app_no
           AND d.endpoint_no BETWEEN l.endpoint_no AND l.endpoint_no
         ORDER BY d.app_no, d.endpoint_no, d.died_at LIMIT 1) END AS dead_since,
       (SELECT v.at FROM hookline.lane_event v
        WHERE v.endpoint_no BETWEEN l.endpoint_no AND l.endpoint_no AND v.kind IN ('endpoint_paused', 'endpoint_disabled')
        ORDER BY v.endpoint_no DESC, v.id DESC LIMIT 1) AS stopped_at
FROM unnest(:nos::bigint[]) AS f (endpoint_no)
JOIN hookline.lane l ON l.endpoint_no = f.endpoint_no AND l.status < 3
JOIN hookline.application a ON a.no = l.app_no
CROSS JOIN LATERAL (
  SELECT count(*) AS dead
  FROM (SELECT FROM hookline.dead_letter d
        WHERE d.resolved_at IS NULL AND d.app_no BETWEEN l.app_no AND l.app_no
          AND d.endpoint_no BETWEEN l.endpoint_no AND l.endpoint_no
        ORDER BY d.app_no, d.endpoint_no LIMIT :counted::integer) c) x

-- name: backlog
-- Count the deliveries of each lane along an index, up to a limit.
WITH lanes AS (
  SELECT n.endpoint_no,
-- include: held_back
         AS held
  FROM hookline.lane n JOIN hookline.application a ON a.no = n.app_no
  WHERE n.status < 3 AND a.org_id = :org_id::text AND (:app_no::bigint IS NULL OR n.app_no = :app_no))
SELECT (SELECT count(*) FROM lanes) AS lanes,
       (SELECT count(*) FROM lanes WHERE held) AS held_lanes,
       (SELECT count(*) FROM (SELECT FROM lanes l CROSS JOIN LATERAL (
-- include: lane_open
        ) o WHERE NOT l.held LIMIT :counted) c) AS waiting,
       (SELECT count(*) FROM (SELECT FROM lanes l CROSS JOIN LATERAL (
-- include: lane_open
        ) o WHERE l.held LIMIT :counted) c) AS held,
       (SELECT min((SELECT d.due_at FROM hookline.delivery d
                    WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 ORDER BY d.due_at LIMIT 1))
        FROM lanes l WHERE NOT l.held) AS oldest_due

-- part: lane_open
(SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 ORDER BY d.due_at LIMIT :counted::integer)
UNION ALL
(SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state = 6 ORDER BY d.ordering_key LIMIT :counted)
