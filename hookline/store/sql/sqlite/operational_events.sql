-- Operational webhooks: read the messages and the last attempts of the deliveries that the events report.

-- name: operational_messages
SELECT id, event_id, trace FROM message WHERE id IN (SELECT value FROM json_each(:ids));

-- name: operational_attempts
SELECT t.delivery_id, t.id, t.status_code, t.started_at
  FROM json_each(:deliveries) d CROSS JOIN json_each(:messages) m ON m.key = d.key
 CROSS JOIN attempt t ON t.rowid = (
       SELECT l.rowid FROM attempt l WHERE l.message_id = m.value AND l.delivery_id = d.value ORDER BY l.number DESC LIMIT 1);
