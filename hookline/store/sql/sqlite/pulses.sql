-- Pulses: what each process did, and the minutes that they become.

-- name: pulse_add
INSERT INTO pulse (grain, at, process, data) VALUES (0, :now, :process, :data) ON CONFLICT DO NOTHING;

-- name: pulses
SELECT at, process, data FROM pulse WHERE grain = :grain AND at > :since AND at <= :until ORDER BY at, process LIMIT :most;

-- name: pulses_unrolled
-- Whole minutes that every process has told of by now, and that are not made yet.
SELECT (at / 60000000 + 1) * 60000000 AS minute, at, process, data FROM pulse
 WHERE grain = 0
   AND at >= coalesce((SELECT max(at) FROM pulse WHERE grain = 1), 0)
   AND at < (:now - 30000000) / 60000000 * 60000000
 ORDER BY at, process LIMIT :most;

-- name: pulse_roll
INSERT INTO pulse (grain, at, process, data) VALUES (1, :at, '', :data) ON CONFLICT DO NOTHING;

-- name: pulses_retire
DELETE FROM pulse WHERE grain = :grain AND at < :before;

-- name: activity_add
INSERT INTO activity (app_no, endpoint_no, grain, at, delivered, retried, dead) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE
   SET delivered = delivered + excluded.delivered, retried = retried + excluded.retried, dead = dead + excluded.dead;

-- name: org_activity_add
-- What was just added to those of applications, by the organization that they belong to.
INSERT INTO org_activity (org_id, grain, at, delivered, retried, dead)
SELECT org_id, ?2, ?3, ?4, ?5, ?6 FROM application WHERE no = ?1
ON CONFLICT DO UPDATE
   SET delivered = delivered + excluded.delivered, retried = retried + excluded.retried, dead = dead + excluded.dead;

-- name: org_activity
SELECT at, delivered, retried, dead FROM org_activity
 WHERE org_id = :org_id AND grain = :grain AND at > :before ORDER BY at;

-- name: activity
SELECT y.at AS at, y.delivered AS delivered, y.retried AS retried, y.dead AS dead
  FROM application a CROSS JOIN activity y
 WHERE a.no = :app_no AND a.org_id = :org_id
   AND y.app_no = a.no AND y.endpoint_no = :endpoint_no AND y.grain = :grain AND y.at > :before
 ORDER BY y.at;

-- name: endpoint_activity
SELECT :first + (at - :first) / :step * :step AS at,
       sum(delivered) AS delivered, sum(retried) AS retried, sum(dead) AS dead FROM activity
 WHERE app_no = :app_no AND endpoint_no = :endpoint_no AND grain = :grain AND at > :before GROUP BY 1 ORDER BY 1;

-- name: activity_retire
DELETE FROM activity WHERE (app_no, endpoint_no, grain, at) IN (
    SELECT app_no, endpoint_no, grain, at FROM activity WHERE grain = :grain AND at < :before ORDER BY at LIMIT :limit);

-- name: org_activity_retire
DELETE FROM org_activity WHERE (org_id, grain, at) IN (
    SELECT org_id, grain, at FROM org_activity WHERE grain = :grain AND at < :before ORDER BY at LIMIT :limit);
