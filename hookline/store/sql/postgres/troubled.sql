-- Lanes that want somebody's attention, and what waits in those of one tenant.

-- part: held_back
(n.status > 0 OR n.circuit IN (1, 2) OR coalesce(n.held_until > now(), false))

-- name: troubled_numbers
-- $1 organization, $2 application, $3 how many.
SELECT n.endpoint_no,
-- include: held_back
       AS held
FROM hookline.lane n
WHERE n.status < 3 AND (n.status > 0 OR n.circuit > 0 OR n.held_until > now() OR n.failing_since IS NOT NULL
       OR n.pace IS NOT NULL)
  AND ($2::bigint IS NULL OR n.app_no = $2)
  AND ($1::text IS NULL OR EXISTS (SELECT FROM hookline.application a WHERE a.no = n.app_no AND a.org_id = $1))
ORDER BY held DESC, n.failing_since NULLS LAST, n.endpoint_no LIMIT $3::integer

-- name: troubled_dead
-- Of the last dead letters of all, $1 of them: by lane, those with the most first, $2 of them.
SELECT l.endpoint_no
FROM (SELECT endpoint_no FROM hookline.dead_letter WHERE resolved_at IS NULL ORDER BY died_at DESC LIMIT $1::integer) l
JOIN hookline.lane n ON n.endpoint_no = l.endpoint_no AND n.status < 3
GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT $2::integer

-- name: troubled_dead_of
-- Likewise, of any dead letters of $3 an organization's applications, or of $4 one of them.
SELECT l.endpoint_no
FROM (SELECT d.endpoint_no
      FROM hookline.application a
      CROSS JOIN LATERAL (SELECT endpoint_no FROM hookline.dead_letter
                          WHERE app_no = a.no AND resolved_at IS NULL ORDER BY died_at DESC LIMIT $1::integer) d
      WHERE a.org_id = $3::text AND a.deleted_at IS NULL AND ($4::bigint IS NULL OR a.no = $4) LIMIT $1) l
JOIN hookline.lane n ON n.endpoint_no = l.endpoint_no AND n.status < 3
GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT $2::integer

-- name: troubled
-- $1 endpoints, in the order in which they are wanted; $2 how far is counted. Ranges and orders are those of the indexes by
-- endpoint: with an equation the planner walks through the dead letters and events of everybody else, by time.
SELECT a.org_id, a.name AS app_name, x.dead, x.dead_since,
       (SELECT v.at FROM hookline.lane_event v
        WHERE v.endpoint_no BETWEEN l.endpoint_no AND l.endpoint_no AND v.kind IN ('endpoint_paused', 'endpoint_disabled')
        ORDER BY v.endpoint_no DESC, v.id DESC LIMIT 1) AS stopped_at,
-- include: lane_seen
FROM unnest($1::bigint[]) WITH ORDINALITY f (endpoint_no, place)
JOIN hookline.lane l ON l.endpoint_no = f.endpoint_no AND l.status < 3
JOIN hookline.endpoint e ON e.no = l.endpoint_no
JOIN hookline.application a ON a.no = e.app_no
CROSS JOIN LATERAL (
  SELECT count(*) AS dead, min(died_at) AS dead_since
  FROM (SELECT died_at FROM hookline.dead_letter
        WHERE endpoint_no BETWEEN l.endpoint_no AND l.endpoint_no AND resolved_at IS NULL
        ORDER BY endpoint_no, died_at LIMIT $2::integer) first) x
ORDER BY f.place

-- name: backlog
-- $1 organization, $2 application; $3 how far is counted: each lane's deliveries along its index, and no lane more once that is
-- reached.
WITH lanes AS (
  SELECT n.endpoint_no,
-- include: held_back
         AS held
  FROM hookline.lane n JOIN hookline.application a ON a.no = n.app_no
  WHERE n.status < 3 AND a.org_id = $1::text AND ($2::bigint IS NULL OR n.app_no = $2))
SELECT (SELECT count(*) FROM lanes) AS lanes,
       (SELECT count(*) FROM lanes WHERE held) AS held_lanes,
       (SELECT count(*) FROM (SELECT FROM lanes l CROSS JOIN LATERAL (
-- include: lane_open
        ) o WHERE NOT l.held LIMIT $3) c) AS waiting,
       (SELECT count(*) FROM (SELECT FROM lanes l CROSS JOIN LATERAL (
-- include: lane_open
        ) o WHERE l.held LIMIT $3) c) AS held,
       (SELECT min((SELECT d.due_at FROM hookline.delivery d
                    WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 ORDER BY d.due_at LIMIT 1))
        FROM lanes l WHERE NOT l.held) AS oldest_due

-- part: lane_open
(SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 ORDER BY d.due_at LIMIT $3::integer)
UNION ALL
(SELECT FROM hookline.delivery d WHERE d.endpoint_no = l.endpoint_no AND d.state = 6 ORDER BY d.ordering_key LIMIT $3)
