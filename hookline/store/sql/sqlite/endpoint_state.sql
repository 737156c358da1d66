-- The state of an endpoint and its lane: statements of SQLite only.

-- name: held_renew_all
-- Does nothing: `_renew_held` has already restarted the time budgets, in batches.
SELECT 1 WHERE FALSE;

-- name: unblock
-- The endpoint's dead letters no longer block its queues: inserts wake tokens for the queues that they blocked.
INSERT INTO wake (app_no, endpoint_no, at, floor, keys)
SELECT l.app_no, :no, :now, :now, keys
  FROM lane l CROSS JOIN (
       SELECT group_concat(json_quote(ordering_key)) AS keys
         FROM (SELECT DISTINCT ordering_key FROM dead_letter
                WHERE endpoint_no = :no AND ordering_key IS NOT NULL AND resolved_at IS NULL))
 WHERE l.endpoint_no = :no AND keys IS NOT NULL;

-- name: held_stretch
-- Finds the last delivery of the batch that `held_renew` updates next: waiting deliveries of a paused lane. No row:
-- that batch is the last one and contains all deliveries that are left.
SELECT due_at, id FROM delivery
 WHERE endpoint_no = :no AND state < 2 AND (due_at, id) > (:due_at, :id)
 ORDER BY due_at, id LIMIT 1 OFFSET :limit;

-- name: held_renew
UPDATE delivery
   SET expires_at = :now + cast(round(coalesce(json_extract(policy, '$.max_age'), :max_age) * 1000000) AS integer)
 WHERE endpoint_no = :no AND state < 2 AND (due_at, id) > (:due_at, :id) AND (due_at, id) <= (:last_due, :last_id);

-- name: queued_stretch
-- Finds the last delivery of the batch that `queued_renew` updates next: queued deliveries of a paused lane. No row:
-- that batch is the last one and contains all deliveries that are left.
SELECT ordering_key, message_seq, id FROM delivery
 WHERE endpoint_no = :no AND state = 6 AND (ordering_key, message_seq, id) > (:key, :seq, :id)
 ORDER BY ordering_key, message_seq, id LIMIT 1 OFFSET :limit;

-- name: queued_renew
UPDATE delivery
   SET expires_at = :now + cast(round(coalesce(json_extract(policy, '$.max_age'), :max_age) * 1000000) AS integer)
 WHERE endpoint_no = :no AND state = 6 AND (ordering_key, message_seq, id) > (:key, :seq, :id)
   AND (ordering_key, message_seq, id) <= (:last_key, :last_seq, :last_id);
