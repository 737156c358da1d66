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
