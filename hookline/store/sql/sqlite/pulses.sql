-- Activity, which `shared/pulses.sql` explains. `postgres/pulses.sql` has the statements for PostgreSQL.

-- name: activity_add
INSERT INTO activity (app_no, endpoint_no, grain, at, delivered, retried, dead)
SELECT :app_no, :endpoint_no, grain, :now - :now % (grain * 1000000), :delivered, :retried, :dead
  FROM (SELECT 60 AS grain UNION ALL SELECT 900) WHERE TRUE
ON CONFLICT DO UPDATE
   SET delivered = delivered + excluded.delivered, retried = retried + excluded.retried, dead = dead + excluded.dead;

-- name: org_activity_add
-- Adds the applications' activity to their organizations.
INSERT INTO org_activity (org_id, grain, at, delivered, retried, dead)
SELECT a.org_id, grain, :now - :now % (grain * 1000000), :delivered, :retried, :dead
  FROM application a CROSS JOIN (SELECT 60 AS grain UNION ALL SELECT 900) WHERE a.no = :app_no
ON CONFLICT DO UPDATE
   SET delivered = delivered + excluded.delivered, retried = retried + excluded.retried, dead = dead + excluded.dead;

-- name: endpoint_activity
SELECT y.endpoint_no, :first + (y.at - :first) / :step * :step AS at,
       sum(y.delivered) AS delivered, sum(y.retried) AS retried, sum(y.dead) AS dead
  FROM json_each(:apps) a CROSS JOIN json_each(:endpoints) e ON e.key = a.key
 CROSS JOIN activity y ON y.app_no = a.value AND y.endpoint_no = e.value AND y.grain = :grain AND y.at > :before
 GROUP BY 1, 2 ORDER BY 1, 2;
