-- Operational webhooks: subscribed organizations, and the outbox rows of events. The statements that read messages and
-- attempts differ between the engines: see `operational_events.sql` of each engine.

-- name: operational_subjects
-- Skips the endpoints of organizations that have no endpoint for operational webhooks. Also skips the endpoints of the
-- management organization, which Hookline creates for itself: its endpoints receive operational webhooks and alerts.
SELECT e.no, a.org_id, a.id AS app_id, a.uid AS app_uid, e.id AS endpoint_id, e.uid AS endpoint_uid, e.revision,
       coalesce(l.epoch, 0) AS epoch, l.failing_since
FROM hookline.endpoint e
JOIN hookline.application a ON a.no = e.app_no
LEFT JOIN hookline.lane l ON l.endpoint_no = e.no
WHERE e.no = ANY (:nos::bigint[]) AND a.org_id <> :management::text
  AND EXISTS (
    SELECT 1 FROM hookline.application m JOIN hookline.endpoint w ON w.app_no = m.no AND w.deleted_at IS NULL
    WHERE m.org_id = :management::text AND m.uid = a.org_id AND m.deleted_at IS NULL)

-- name: operational_write
INSERT INTO hookline.outbox (org_id, app, event_type, event_id, payload, trace, created_at)
VALUES (:management, :org_id, :kind, :event_id, :payload, :trace, now())
