-- Retention: deletes batches of rows, by the indexes on their age. The message of an open or dead delivery is never
-- deleted.

-- name: retire_attempts
DELETE FROM attempt WHERE rowid IN (
    SELECT a.rowid FROM attempt a
     WHERE a.recorded_at < ?
       AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.id = a.delivery_id)
       AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.id = a.delivery_id)
     ORDER BY a.recorded_at LIMIT ?);

-- name: retire_done
DELETE FROM delivery_done WHERE rowid IN (
    SELECT rowid FROM delivery_done WHERE finished_at < ? ORDER BY finished_at LIMIT ?);

-- name: retire_messages
DELETE FROM message WHERE seq IN (
    SELECT m.seq FROM message m
     WHERE m.created_at < ?
       AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = m.id)
       AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.message_id = m.id)
     ORDER BY m.created_at LIMIT ?);

-- name: retire_event_id
DELETE FROM event_id WHERE rowid IN (
    SELECT rowid FROM event_id WHERE created_at < ? ORDER BY created_at LIMIT ?);

-- name: retire_key
DELETE FROM idempotency WHERE rowid IN (
    SELECT rowid FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?);

-- name: retire_lane_event
DELETE FROM lane_event WHERE id IN (SELECT id FROM lane_event WHERE at < ? ORDER BY at LIMIT ?);

-- name: retire_dead
DELETE FROM dead_letter WHERE id IN (SELECT id FROM dead_letter WHERE died_at < ? ORDER BY died_at LIMIT ?)
RETURNING resolved_at IS NULL, endpoint_no, ordering_key;

-- name: retire_resolved
DELETE FROM dead_letter WHERE id IN (
    SELECT id FROM dead_letter WHERE died_at < :cutoff AND resolved_at < :cutoff ORDER BY died_at LIMIT :limit);

-- name: retire_answer
DELETE FROM answer WHERE rowid IN (SELECT rowid FROM answer WHERE expires_at <= ? ORDER BY expires_at LIMIT ?);

-- name: retire_token
DELETE FROM revoked_token WHERE rowid IN (
    SELECT rowid FROM revoked_token WHERE expires_at <= ? ORDER BY expires_at LIMIT ?);

-- name: retire_session
DELETE FROM session WHERE hash IN (SELECT hash FROM session WHERE expires_at <= ? ORDER BY expires_at LIMIT ?);

-- name: retire_guess
DELETE FROM guess WHERE subject IN (SELECT subject FROM guess WHERE seen_at < ? ORDER BY seen_at LIMIT ?);

-- name: retire_audit
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ? ORDER BY at LIMIT ?);

-- name: retire_task
DELETE FROM task WHERE id IN (
    SELECT id FROM task WHERE status <> 'running' AND updated_at < ? ORDER BY updated_at LIMIT ?);
