-- Alerts that fire, alerts that are pending, and the times at which the rules were checked.

-- name: alert_checks
SELECT at, backlog FROM hookline.alert_look WHERE at > now() - :kept::interval ORDER BY at

-- name: alert_unhealthy_endpoints
-- The requested endpoints, plus a limited number of others whose circuit is not closed.
SELECT n.endpoint_no, e.id AS endpoint_id, a.org_id, a.id AS app_id, a.uid AS app_uid, n.status, n.circuit,
       n.opened_at
FROM (SELECT endpoint_no FROM (SELECT endpoint_no FROM hookline.lane WHERE circuit > 0
                               ORDER BY opened_at, endpoint_no LIMIT :max_rows) o
      UNION SELECT endpoint_no FROM hookline.lane WHERE endpoint_no = ANY (:nos::bigint[])) f
JOIN hookline.lane n ON n.endpoint_no = f.endpoint_no
JOIN hookline.endpoint e ON e.no = n.endpoint_no AND e.deleted_at IS NULL
JOIN hookline.application a ON a.no = e.app_no
ORDER BY n.endpoint_no

-- name: alert_last
SELECT max(at) FROM hookline.alert_look WHERE at <= now()

-- part: alert_shown
SELECT l.*, (SELECT a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
             WHERE e.id = l.subject COLLATE "C") AS org_id
FROM hookline.alert l

-- name: alerts_firing
-- This statement must use the index of firing alerts. SQLite uses that index only with the condition on the name and
-- with `+` before id.
-- include: alert_shown
WHERE resolved_at IS NULL AND name > '' ORDER BY +id

-- name: alerts_pending
SELECT name, subject, began_at FROM hookline.alert_pending

-- name: alert_begin
INSERT INTO hookline.alert_pending (name, subject, began_at) VALUES (:name, :subject, now()) ON CONFLICT DO NOTHING

-- name: alert_forget
DELETE FROM hookline.alert_pending WHERE name = :name AND subject = :subject

-- name: alert_fire
INSERT INTO hookline.alert (name, subject, severity, began_at, fired_at, value, threshold, text)
VALUES (:name, :subject, :severity, :began_at, now(), :value, :threshold, :text)
RETURNING id

-- name: alert_update
UPDATE hookline.alert
SET severity = :severity, clear_since = :clear_since, value = :value, threshold = :threshold, text = :text
WHERE id = :id AND resolved_at IS NULL

-- name: alert_resolve
UPDATE hookline.alert SET clear_since = :clear_since, resolved_at = now() WHERE id = :id AND resolved_at IS NULL

-- name: alert_tell
INSERT INTO hookline.outbox (org_id, app, event_type, event_id, channels, payload, created_at)
VALUES (:management, :app, :event_type, :event_id, :channels, :payload, now())

-- name: alert_check_add
INSERT INTO hookline.alert_look (at, backlog) VALUES (now(), :backlog) ON CONFLICT DO NOTHING

-- name: alert_checks_retire
-- A time in the future was written before the clock was set back.
DELETE FROM hookline.alert_look WHERE at < now() - :kept::interval OR at > now()

-- name: alerts_retire
DELETE FROM hookline.alert WHERE fired_at < now() - :kept::interval AND resolved_at IS NOT NULL

-- name: alerts
-- include: alert_shown
WHERE (:firing::boolean IS NULL OR (resolved_at IS NULL) = :firing) AND id < :iterator
ORDER BY id DESC LIMIT :limit

-- name: alerts_back
-- include: alert_shown
WHERE (:firing::boolean IS NULL OR (resolved_at IS NULL) = :firing) AND id > :iterator
ORDER BY id LIMIT :limit
