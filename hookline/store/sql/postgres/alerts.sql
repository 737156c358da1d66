-- Alerts: what fires, what is pending, and when the rules were asked.

-- name: alert_looks
SELECT now() AS now, l.at, l.backlog
FROM (VALUES (1)) AS one (one)
LEFT JOIN hookline.alert_look l ON l.at > now() - make_interval(secs => $1::float8)
ORDER BY l.at

-- name: alert_unwell
-- $1 endpoints that were asked for, $2 how many of the others: those whose circuit is not closed.
SELECT n.endpoint_no, e.id AS endpoint_id, a.org_id, a.id AS app_id, a.uid AS app_uid, n.status, n.circuit,
       n.opened_at
FROM (SELECT endpoint_no FROM (SELECT endpoint_no FROM hookline.lane WHERE circuit > 0 ORDER BY opened_at, endpoint_no LIMIT $2::integer) o
      UNION SELECT unnest($1::bigint[])) f
JOIN hookline.lane n ON n.endpoint_no = f.endpoint_no
JOIN hookline.endpoint e ON e.no = n.endpoint_no AND e.deleted_at IS NULL
JOIN hookline.application a ON a.no = e.app_no
ORDER BY n.endpoint_no

-- name: alert_last
SELECT now() AS now, (SELECT max(at) FROM hookline.alert_look WHERE at <= now()) AS last

-- name: alerts_firing
SELECT l.*, (SELECT a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
             WHERE e.id = l.subject COLLATE "C") AS org_id
FROM hookline.alert l WHERE resolved_at IS NULL ORDER BY id

-- name: alerts_pending
SELECT name, subject, began_at FROM hookline.alert_pending

-- name: alert_begin
INSERT INTO hookline.alert_pending (name, subject, began_at) VALUES ($1, $2, now()) ON CONFLICT DO NOTHING

-- name: alert_forget
DELETE FROM hookline.alert_pending WHERE name = $1 AND subject = $2

-- name: alert_fire
INSERT INTO hookline.alert (name, subject, severity, began_at, fired_at, value, threshold, text)
VALUES ($1, $2, $3, $4, now(), $5, $6, $7)
RETURNING id

-- name: alert_update
UPDATE hookline.alert SET severity = $2, clear_since = $3, value = $4, threshold = $5, text = $6
WHERE id = $1 AND resolved_at IS NULL

-- name: alert_resolve
UPDATE hookline.alert SET clear_since = $2, resolved_at = now() WHERE id = $1 AND resolved_at IS NULL

-- name: alert_tell
-- $1 the management organization, $2 its application.
INSERT INTO hookline.outbox (org_id, app, event_type, event_id, channels, payload)
SELECT $1::text, $2::text, r.event_type, r.event_id, ARRAY[r.channel], r.payload
FROM unnest($3::text[], $4::text[], $5::text[], $6::bytea[]) WITH ORDINALITY
     AS r (event_type, event_id, channel, payload, ord)
ORDER BY r.ord

-- name: alert_look_add
INSERT INTO hookline.alert_look (at, backlog) VALUES (now(), $1) ON CONFLICT DO NOTHING

-- name: alert_looks_retire
-- Those that lie ahead were made by a clock that has been set back since.
DELETE FROM hookline.alert_look WHERE at < now() - $1::interval OR at > now()

-- name: alerts_retire
DELETE FROM hookline.alert WHERE fired_at < now() - make_interval(days => $1) AND resolved_at IS NOT NULL

-- name: alerts
-- $1 only those that fire (true) or are resolved (false), $2 before this number, $3 how many.
SELECT l.*, (SELECT a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
             WHERE e.id = l.subject COLLATE "C") AS org_id
FROM hookline.alert l
WHERE ($1::boolean IS NULL OR (resolved_at IS NULL) = $1::boolean) AND id < $2
ORDER BY id DESC LIMIT $3

-- name: alerts_back
SELECT l.*, (SELECT a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
             WHERE e.id = l.subject COLLATE "C") AS org_id
FROM hookline.alert l
WHERE ($1::boolean IS NULL OR (resolved_at IS NULL) = $1::boolean) AND id > $2
ORDER BY id LIMIT $3
