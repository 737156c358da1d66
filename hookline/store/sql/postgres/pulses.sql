-- Pulses: what each process did, and the minutes that they become.

-- name: pulse_add
-- ON CONFLICT: the clock may stand still for a process that beats twice.
INSERT INTO hookline.pulse (grain, at, process, data) VALUES (0, now(), $1, $2) ON CONFLICT DO NOTHING

-- name: pulses
SELECT at, process, data FROM hookline.pulse
WHERE grain = $1 AND at > $2::timestamptz AND at <= coalesce($3::timestamptz, now())
ORDER BY at, process LIMIT $4

-- name: pulses_unrolled
-- Whole minutes that every process has told of by now, and that are not made yet. $1 most rows.
SELECT date_trunc('minute', at) + interval '1 minute' AS minute, at, process, data FROM hookline.pulse
WHERE grain = 0
  AND at >= coalesce((SELECT max(at) FROM hookline.pulse WHERE grain = 1), '2000-01-01'::timestamptz)
  AND at < date_trunc('minute', now() - interval '30 seconds')
ORDER BY at, process LIMIT $1

-- name: pulse_roll
INSERT INTO hookline.pulse (grain, at, process, data) VALUES (1, $1, '', $2) ON CONFLICT DO NOTHING

-- name: pulses_retire
DELETE FROM hookline.pulse
WHERE (grain = 0 AND at < now() - interval '2 hours') OR (grain = 1 AND at < now() - interval '7 days')

-- name: activity_add
-- In the order of their keys, or two processes would wait for each other.
INSERT INTO hookline.activity (app_no, endpoint_no, grain, at, delivered, retried, dead)
SELECT x.app_no, x.endpoint_no, g.grain, date_bin(make_interval(secs => g.grain), now(), 'epoch'::timestamptz),
       x.delivered, x.retried, x.dead
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
  AS x (app_no, endpoint_no, delivered, retried, dead)
CROSS JOIN (VALUES (60), (900)) AS g (grain)
ORDER BY x.app_no, x.endpoint_no, g.grain
ON CONFLICT (app_no, endpoint_no, grain, at) DO UPDATE
SET delivered = activity.delivered + excluded.delivered, retried = activity.retried + excluded.retried,
    dead = activity.dead + excluded.dead

-- name: org_activity_add
-- What was just added to those of applications, by the organization that they belong to; in the order of their keys, likewise.
INSERT INTO hookline.org_activity (org_id, grain, at, delivered, retried, dead)
SELECT a.org_id, g.grain, date_bin(make_interval(secs => g.grain), now(), 'epoch'::timestamptz),
       sum(x.delivered), sum(x.retried), sum(x.dead)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS x (app_no, delivered, retried, dead)
JOIN hookline.application a ON a.no = x.app_no
CROSS JOIN (VALUES (60), (900)) AS g (grain)
GROUP BY a.org_id, g.grain ORDER BY a.org_id, g.grain
ON CONFLICT (org_id, grain, at) DO UPDATE
SET delivered = org_activity.delivered + excluded.delivered, retried = org_activity.retried + excluded.retried,
    dead = org_activity.dead + excluded.dead

-- name: org_activity
-- $1 organization, $2 grain, $3 since.
SELECT at, delivered, retried, dead FROM hookline.org_activity
WHERE org_id = $1::text AND grain = $2::integer AND at > $3::timestamptz - make_interval(secs => $2::integer) ORDER BY at

-- name: activity
-- $1 organization, $2 application, $3 endpoint or 0, $4 grain, $5 since.
SELECT y.at, y.delivered, y.retried, y.dead
FROM hookline.application a JOIN hookline.activity y ON y.app_no = a.no
WHERE a.no = $2::bigint AND a.org_id = $1::text
  AND y.endpoint_no = $3 AND y.grain = $4::integer AND y.at > $5::timestamptz - make_interval(secs => $4::integer)
ORDER BY y.at

-- name: endpoint_activity
SELECT v.endpoint_no, date_bin($6::interval, v.at, $5::timestamptz) AS at,
       sum(v.delivered)::bigint AS delivered, sum(v.retried)::bigint AS retried, sum(v.dead)::bigint AS dead
FROM unnest($1::bigint[], $2::bigint[]) AS x (app_no, endpoint_no)
CROSS JOIN LATERAL (
  SELECT * FROM hookline.activity v
  WHERE v.app_no = x.app_no AND v.endpoint_no = x.endpoint_no AND v.grain = $3::integer
    AND v.at > $4::timestamptz - make_interval(secs => $3::integer)
  OFFSET 0) v
GROUP BY 1, 2 ORDER BY 1, 2

-- name: activity_retire
DELETE FROM hookline.activity WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM hookline.activity WHERE grain = $1::integer AND at < now() - make_interval(secs => $2)
  ORDER BY at LIMIT $3::integer))

-- name: org_activity_retire
DELETE FROM hookline.org_activity WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM hookline.org_activity WHERE grain = $1::integer AND at < now() - make_interval(secs => $2)
  ORDER BY at LIMIT $3::integer))
