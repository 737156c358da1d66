-- Lanes and their endpoints.

-- name: lanes_all
SELECT endpoint_no AS no FROM hookline.lane WHERE status < 3 AND endpoint_no > 0 ORDER BY endpoint_no

-- name: lanes_of_org
SELECT e.no FROM hookline.application a CROSS JOIN hookline.endpoint e
WHERE a.org_id = :org_id AND a.deleted_at IS NULL AND (:app_no::bigint IS NULL OR a.no = :app_no)
  AND e.app_no = a.no AND e.deleted_at IS NULL
ORDER BY a.id, e.id

-- name: lanes_of_app
SELECT e.no FROM hookline.endpoint e WHERE e.app_no = :app_no AND e.deleted_at IS NULL ORDER BY e.id
