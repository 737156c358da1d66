-- Activity, which `shared/pulses.sql` explains. `sqlite/pulses.sql` has the statements for SQLite.

-- name: activity_add
-- Sorted by key, so that two processes do not deadlock.
INSERT INTO hookline.activity (app_no, endpoint_no, grain, at, delivered, retried, dead)
SELECT x.app_no, x.endpoint_no, g.grain, date_bin(make_interval(secs => g.grain), now(), 'epoch'::timestamptz),
       x.delivered, x.retried, x.dead
FROM unnest(:app_no::bigint[], :endpoint_no::bigint[], :delivered::bigint[], :retried::bigint[], :dead::bigint[])
  AS x (app_no, endpoint_no, delivered, retried, dead)
CROSS JOIN (VALUES (60), (900)) AS g (grain)
ORDER BY x.app_no, x.endpoint_no, g.grain
ON CONFLICT (app_no, endpoint_no, grain, at) DO UPDATE
SET delivered = activity.delivered + excluded.delivered, retried = activity.retried + excluded.retried,
    dead = activity.dead + excluded.dead

-- name: org_activity_add
-- Adds the applications' activity to their organizations, sorted by key, so that two processes do not deadlock.
INSERT INTO hookline.org_activity (org_id, grain, at, delivered, retried, dead)
SELECT a.org_id, g.grain, date_bin(make_interval(secs => g.grain), now(), 'epoch'::timestamptz),
       sum(x.delivered), sum(x.retried), sum(x.dead)
FROM unnest(:app_no::bigint[], :delivered::bigint[], :retried::bigint[], :dead::bigint[]) AS x (app_no, delivered, retried, dead)
JOIN hookline.application a ON a.no = x.app_no
CROSS JOIN (VALUES (60), (900)) AS g (grain)
GROUP BY a.org_id, g.grain ORDER BY a.org_id, g.grain
ON CONFLICT (org_id, grain, at) DO UPDATE
SET delivered = org_activity.delivered + excluded.delivered, retried = org_activity.retried + excluded.retried,
    dead = org_activity.dead + excluded.dead

-- name: endpoint_activity
SELECT v.endpoint_no, date_bin(:step::interval, v.at, :first::timestamptz) AS at,
       sum(v.delivered)::bigint AS delivered, sum(v.retried)::bigint AS retried, sum(v.dead)::bigint AS dead
FROM unnest(:apps::bigint[], :endpoints::bigint[]) AS x (app_no, endpoint_no)
CROSS JOIN LATERAL (
  SELECT * FROM hookline.activity v
  WHERE v.app_no = x.app_no AND v.endpoint_no = x.endpoint_no AND v.grain = :grain::integer AND v.at > :before::timestamptz
  OFFSET 0) v
GROUP BY 1, 2 ORDER BY 1, 2
