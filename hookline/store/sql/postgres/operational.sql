-- Operational webhooks: who listens, what is to be told, and the rows of the outbox.

-- name: operational_subjects
-- $1 the management organization, $2 endpoints. None of an organization without an operational endpoint; none of its own.
SELECT e.no, a.org_id, a.id AS app_id, a.uid AS app_uid, e.id AS endpoint_id, e.uid AS endpoint_uid, e.revision,
       coalesce(l.epoch, 0) AS epoch, l.failing_since
FROM hookline.endpoint e
JOIN hookline.application a ON a.no = e.app_no
LEFT JOIN hookline.lane l ON l.endpoint_no = e.no
WHERE e.no = ANY ($2::bigint[]) AND a.org_id <> $1::text
  AND EXISTS (
    SELECT FROM hookline.application m JOIN hookline.endpoint w ON w.app_no = m.no AND w.deleted_at IS NULL
    WHERE m.org_id = $1::text AND m.uid = a.org_id AND m.deleted_at IS NULL)

-- name: operational_messages
-- $1 and $2, the oldest and the newest instant, prune the partitions when the statement is planned.
SELECT m.id, m.event_id, m.trace
FROM unnest($3::timestamptz[], $4::text[]) AS r (at, id)
JOIN hookline.message m ON m.created_at = r.at AND m.id = r.id
WHERE m.created_at >= $1::timestamptz AND m.created_at <= $2::timestamptz

-- name: operational_attempts
-- $1, when the first of the messages was accepted: no attempt for them is older.
SELECT r.delivery_id, t.id, t.status_code, t.started_at
FROM unnest($2::bigint[], $3::text[]) AS r (delivery_id, message_id)
CROSS JOIN LATERAL (
  SELECT t.id, t.status_code, t.started_at FROM hookline.attempt t
  WHERE t.message_id = r.message_id AND t.delivery_id = r.delivery_id AND t.recorded_at >= $1::timestamptz
  ORDER BY t.number DESC LIMIT 1) t

-- name: operational_write
INSERT INTO hookline.outbox (org_id, app, event_type, event_id, payload, trace)
SELECT $1::text, r.app, r.event_type, r.event_id, r.payload, r.trace
FROM unnest($2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[]) WITH ORDINALITY
     AS r (app, event_type, event_id, payload, trace, ord)
ORDER BY r.ord
