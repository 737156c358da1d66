-- Claim: one transaction. `rules/lane/admission.py` decides how many deliveries the claim may take from each
-- lane.

-- name: claim_tokens
SELECT endpoint_no, app_no FROM wake WHERE at <= ? ORDER BY at, id LIMIT ?;

-- name: claim_newest
SELECT endpoint_no, app_no FROM wake WHERE at <= ? ORDER BY at DESC, id DESC LIMIT ?;

-- name: claim_app
-- The next application that has a due wake token. Claims visit applications in descending order of their numbers.
SELECT app_no FROM wake WHERE app_no < ? AND at <= ? ORDER BY app_no DESC LIMIT 1;

-- name: claim_turns
SELECT endpoint_no, app_no FROM wake WHERE app_no = ? AND at <= ? ORDER BY at, id LIMIT ?;

-- name: claim_consume
-- Deletes all wake tokens of the lanes in this claim, also those for a later time, because the claim inserts at most
-- one new wake token per lane. Wake tokens of lanes that no longer exist are deleted too.
DELETE FROM wake WHERE endpoint_no IN (SELECT value FROM json_each(?)) RETURNING endpoint_no, keys;

-- name: app_paces
SELECT app_no, tat, tail_at FROM app_pace WHERE app_no IN (SELECT value FROM json_each(?));

-- name: app_pace_write
UPDATE app_pace SET tat = ?, tail_at = ? WHERE app_no = ?;

-- name: claim_candidates
-- On PostgreSQL, the scan begins at a floor (the earliest due time that it looks for), to skip index entries of old row
-- versions. An index of SQLite has no such entries, so the scan needs no floor.
-- The first parameter is the size above which a payload is large. `claim_payload` reads large payloads that fit.
SELECT d.id, d.due_at, d.message_id, d.app_no, d.event_type,
       CASE WHEN length(m.payload) <= ? THEN m.payload END, d.attempts, d.sent, d.message_at, d.expires_at,
       d.trigger, d.policy, d.last_delay, d.ordering_key, m.trace, length(m.payload), d.message_seq
  FROM delivery d LEFT JOIN message m ON m.seq = d.message_seq
 WHERE d.endpoint_no = ? AND d.state < 2
 ORDER BY d.due_at, d.id LIMIT ?;

-- name: claim_payload
SELECT payload FROM message WHERE seq = ?;

-- name: claim_take
UPDATE delivery SET state = 2, claim = ?, lease_until = ?, counted = ?
 WHERE id IN (SELECT value FROM json_each(?)) AND state < 2;

-- name: claim_next
SELECT at FROM wake WHERE at > 0 ORDER BY at LIMIT 1;
