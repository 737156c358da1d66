-- Operational webhooks: details of the deliveries that they report.

-- name: operational_messages
-- `first` and `last` are the times at which the oldest and the newest of the messages were accepted. With them, the
-- planner skips partitions outside this time range.
SELECT m.id, m.event_id, m.trace
FROM unnest(:instants::timestamptz[], :ids::text[]) AS r (at, id)
JOIN hookline.message m ON m.created_at = r.at AND m.id = r.id
WHERE m.created_at >= :first::timestamptz AND m.created_at <= :last::timestamptz

-- name: operational_attempts
-- No attempt is older than :since, the instant at which the first of the messages was accepted.
SELECT r.delivery_id, t.id, t.status_code, t.started_at
FROM unnest(:deliveries::bigint[], :messages::text[]) AS r (delivery_id, message_id)
CROSS JOIN LATERAL (
  SELECT t.id, t.status_code, t.started_at FROM hookline.attempt t
  WHERE t.message_id = r.message_id AND t.delivery_id = r.delivery_id AND t.recorded_at >= :since::timestamptz
  ORDER BY t.number DESC LIMIT 1) t
