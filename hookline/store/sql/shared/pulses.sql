-- Pulses: the counters of each process, and their sums for each minute. Activity: numbers of attempts by endpoint,
-- time interval and outcome.

-- name: pulse_add
-- ON CONFLICT: a process may write two pulses while the clock stands still.
INSERT INTO hookline.pulse (grain, at, process, data) VALUES (0, now(), :process, :data) ON CONFLICT DO NOTHING

-- name: pulses
SELECT at, process, data FROM hookline.pulse
WHERE grain = :grain AND at > :since AND at <= coalesce(:until::timestamptz, now())
ORDER BY at, process LIMIT :max_rows

-- name: pulses_unrolled
-- Pulses of minutes that were not aggregated yet.
SELECT at, process, data FROM hookline.pulse
WHERE grain = 0 AND at >= coalesce((SELECT max(at) FROM hookline.pulse WHERE grain = 1), :first::timestamptz) AND at < :before
ORDER BY at, process LIMIT :max_rows

-- name: pulse_roll
INSERT INTO hookline.pulse (grain, at, process, data) VALUES (1, :at, '', :data) ON CONFLICT DO NOTHING

-- name: pulses_retire
DELETE FROM hookline.pulse WHERE grain = :grain AND at < now() - :kept::interval

-- name: org_activity
SELECT at, delivered, retried, dead FROM hookline.org_activity
WHERE org_id = :org_id AND grain = :grain AND at > :before ORDER BY at

-- name: activity
SELECT y.at AS at, y.delivered AS delivered, y.retried AS retried, y.dead AS dead
FROM hookline.application a CROSS JOIN hookline.activity y
WHERE a.no = :app_no AND a.org_id = :org_id
  AND y.app_no = a.no AND y.endpoint_no = :endpoint_no AND y.grain = :grain AND y.at > :before
ORDER BY y.at

-- name: activity_retire
DELETE FROM hookline.activity WHERE (app_no, endpoint_no, grain, at) IN (
  SELECT app_no, endpoint_no, grain, at FROM hookline.activity
  WHERE grain = :grain AND at < now() - :kept::interval ORDER BY at LIMIT :max_rows)

-- name: org_activity_retire
DELETE FROM hookline.org_activity WHERE (org_id, grain, at) IN (
  SELECT org_id, grain, at FROM hookline.org_activity
  WHERE grain = :grain AND at < now() - :kept::interval ORDER BY at LIMIT :max_rows)
