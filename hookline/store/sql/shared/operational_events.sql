-- Operational webhooks: who listens, what they are told, and the rows of the outbox. Each engine looks up history in its own way.

-- name: operational_subjects
-- None of an organization without an operational endpoint; none of the management organization's own.
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
