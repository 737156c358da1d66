-- Answers to POSTs with an idempotency key. A lease that ends further away than anybody leases was made by a wrong clock.

-- name: answer_hold
INSERT INTO answer (key, body, claim, held_until, expires_at) VALUES (:key, :request, :claim, :held_until, :expires_at)
ON CONFLICT (key) DO UPDATE
   SET body = excluded.body, claim = excluded.claim, held_until = excluded.held_until, status = NULL, response = NULL,
       expires_at = excluded.expires_at
 WHERE answer.expires_at <= :now
    OR (answer.status IS NULL AND answer.body = excluded.body
        AND (answer.held_until <= :now OR answer.held_until > :far));

-- name: answer
SELECT body, status, response FROM answer
 WHERE key = :key AND expires_at > :now
   AND (status IS NOT NULL OR (held_until > :now AND held_until <= :far));

-- name: answer_held
SELECT body, status, response FROM answer WHERE key = ?;

-- name: answer_renew
UPDATE answer SET held_until = :held_until WHERE key = :key AND claim = :claim AND status IS NULL;

-- name: answer_keep
UPDATE answer SET status = :status, response = :response, claim = NULL, held_until = NULL, expires_at = :expires_at
 WHERE key = :key AND claim = :claim AND status IS NULL;

-- name: answer_drop
DELETE FROM answer WHERE key = ? AND claim = ? AND status IS NULL;

-- name: retire_answer
DELETE FROM answer WHERE rowid IN (SELECT rowid FROM answer WHERE expires_at <= ? ORDER BY expires_at LIMIT ?);

-- name: retire_token
DELETE FROM revoked_token WHERE rowid IN (
    SELECT rowid FROM revoked_token WHERE expires_at <= ? ORDER BY expires_at LIMIT ?);
