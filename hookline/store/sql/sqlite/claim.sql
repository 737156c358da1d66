-- Claim: one transaction. `rules/lane/admission.py` decides between the reads and the writes.

-- name: claim_tokens
SELECT endpoint_no, app_no FROM wake WHERE at <= ? ORDER BY at, id LIMIT ?;

-- name: claim_app
-- The next application that has a due wake token.
SELECT app_no FROM wake WHERE app_no < ? AND at <= ? ORDER BY app_no DESC LIMIT 1;

-- name: claim_turns
SELECT endpoint_no, app_no FROM wake WHERE app_no = ? AND at <= ? ORDER BY at, id LIMIT ?;

-- name: claim_consume
-- All wake tokens of a served lane, future ones too, because the lane gets one new wake token. Tokens without a lane
-- are deleted as well.
DELETE FROM wake WHERE endpoint_no IN (SELECT value FROM json_each(?)) RETURNING endpoint_no, keys;

-- name: app_paces
SELECT app_no, tat, tail_at FROM app_pace WHERE app_no IN (SELECT value FROM json_each(?));

-- name: app_pace_write
UPDATE app_pace SET tat = ?, tail_at = ? WHERE app_no = ?;

-- name: claim_candidates
-- SQLite keeps no dead entries in the index, so the scan needs no floor.
SELECT d.id, d.due_at, d.message_id, d.app_no, d.event_type, m.payload, d.attempts, d.sent, d.message_at, d.expires_at,
       d.trigger, d.policy, d.last_delay, d.ordering_key, m.trace
  FROM delivery d LEFT JOIN message m ON m.seq = d.message_seq
 WHERE d.endpoint_no = ? AND d.state < 2
 ORDER BY d.due_at, d.id LIMIT ?;

-- name: claim_take
UPDATE delivery SET state = 2, claim = ?, lease_until = ?, counted = ?
 WHERE id IN (SELECT value FROM json_each(?)) AND state < 2;

-- name: claim_next
SELECT at FROM wake WHERE at > 0 ORDER BY at LIMIT 1;
