-- Alerts: what fires, what is pending, and when the rules were asked.

-- name: alert_looks
SELECT at, backlog FROM alert_look WHERE at > :since ORDER BY at;

-- name: alert_unwell
-- Those that were asked for; and of the others, whose circuit is not closed, so many.
SELECT n.endpoint_no, e.id AS endpoint_id, a.org_id, a.id AS app_id, a.uid AS app_uid, n.status, n.circuit,
       n.opened_at
  FROM (SELECT endpoint_no FROM (SELECT endpoint_no FROM lane WHERE circuit > 0 ORDER BY opened_at, endpoint_no LIMIT :most)
        UNION SELECT value FROM json_each(:nos)) f
  JOIN lane n ON n.endpoint_no = f.endpoint_no
  JOIN endpoint e ON e.no = n.endpoint_no AND e.deleted_at IS NULL
  JOIN application a ON a.no = e.app_no
 ORDER BY n.endpoint_no;

-- name: alert_last
SELECT max(at) FROM alert_look WHERE at <= :now;

-- name: alerts_firing
SELECT l.*, (SELECT a.org_id FROM endpoint e JOIN application a ON a.no = e.app_no WHERE e.id = l.subject) AS org_id
  FROM alert l WHERE resolved_at IS NULL AND name > '' ORDER BY +id;

-- name: alerts_pending
SELECT name, subject, began_at FROM alert_pending;

-- name: alert_begin
INSERT INTO alert_pending (name, subject, began_at) VALUES (:name, :subject, :now) ON CONFLICT DO NOTHING;

-- name: alert_forget
DELETE FROM alert_pending WHERE name = :name AND subject = :subject;

-- name: alert_fire
INSERT INTO alert (name, subject, severity, began_at, fired_at, value, threshold, text)
VALUES (:name, :subject, :severity, :began_at, :now, :value, :threshold, :text)
RETURNING id;

-- name: alert_update
UPDATE alert SET severity = :severity, clear_since = :clear_since, value = :value, threshold = :threshold, text = :text
 WHERE id = :id AND resolved_at IS NULL;

-- name: alert_resolve
UPDATE alert SET clear_since = :clear_since, resolved_at = :now WHERE id = :id AND resolved_at IS NULL;

-- name: alert_tell
INSERT INTO outbox (org_id, app, event_type, event_id, channels, payload, created_at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: alert_look_add
INSERT INTO alert_look (at, backlog) VALUES (:now, :backlog) ON CONFLICT DO NOTHING;

-- name: alert_looks_retire
-- Those that lie ahead were made by a clock that has been set back since.
DELETE FROM alert_look WHERE at < :before OR at > :now;

-- name: alerts_retire
DELETE FROM alert WHERE fired_at < :before AND resolved_at IS NOT NULL;

-- name: alerts
SELECT l.*, (SELECT a.org_id FROM endpoint e JOIN application a ON a.no = e.app_no WHERE e.id = l.subject) AS org_id
  FROM alert l
 WHERE (:firing IS NULL OR (resolved_at IS NULL) = :firing) AND id < :number
 ORDER BY id DESC LIMIT :most;

-- name: alerts_back
SELECT l.*, (SELECT a.org_id FROM endpoint e JOIN application a ON a.no = e.app_no WHERE e.id = l.subject) AS org_id
  FROM alert l
 WHERE (:firing IS NULL OR (resolved_at IS NULL) = :firing) AND id > :number
 ORDER BY id LIMIT :most;
