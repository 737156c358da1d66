-- Operational webhooks: who listens, what is to be told, and the rows of the outbox.

-- name: operational_subjects
-- None of an organization without an operational endpoint; none of the management organization's own.
SELECT e.no, a.org_id, a.id AS app_id, a.uid AS app_uid, e.id AS endpoint_id, e.uid AS endpoint_uid, e.revision,
       coalesce(l.epoch, 0) AS epoch, l.failing_since
  FROM endpoint e
  JOIN application a ON a.no = e.app_no
  LEFT JOIN lane l ON l.endpoint_no = e.no
 WHERE e.no IN (SELECT value FROM json_each(:nos)) AND a.org_id <> :management
   AND EXISTS (SELECT 1 FROM application m JOIN endpoint w ON w.app_no = m.no AND w.deleted_at IS NULL
                WHERE m.org_id = :management AND m.uid = a.org_id AND m.deleted_at IS NULL);

-- name: operational_messages
SELECT id, event_id, trace FROM message WHERE id IN (SELECT value FROM json_each(?));

-- name: operational_attempts
SELECT id, status_code, started_at FROM attempt
 WHERE message_id = ? AND delivery_id = ? ORDER BY number DESC LIMIT 1;

-- name: operational_write
INSERT INTO outbox (org_id, app, event_type, event_id, payload, trace, created_at) VALUES (?, ?, ?, ?, ?, ?, ?);
