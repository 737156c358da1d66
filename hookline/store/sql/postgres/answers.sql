-- Answers to POSTs with an idempotency key.

-- name: answer_hold
INSERT INTO hookline.answer AS held (key, body, claim, held_until, expires_at)
VALUES ($1, $2, $3, now() + make_interval(secs => $4), now() + make_interval(secs => $5))
ON CONFLICT (key) DO UPDATE
SET body = excluded.body, claim = excluded.claim, held_until = excluded.held_until, status = NULL, response = NULL,
    expires_at = excluded.expires_at
WHERE held.expires_at <= now() OR (held.status IS NULL AND held.body = excluded.body AND held.held_until <= now())
RETURNING claim

-- name: answer
SELECT body, status, response FROM hookline.answer
WHERE key = $1 AND expires_at > now() AND (status IS NOT NULL OR held_until > now())

-- name: answer_held
SELECT body, status, response FROM hookline.answer WHERE key = $1

-- name: answer_renew
UPDATE hookline.answer SET held_until = now() + make_interval(secs => $3)
WHERE key = $1 AND claim = $2 AND status IS NULL RETURNING claim

-- name: answer_keep
UPDATE hookline.answer
SET status = $3, response = $4, claim = NULL, held_until = NULL, expires_at = now() + make_interval(secs => $5)
WHERE key = $1 AND claim = $2 AND status IS NULL RETURNING key

-- name: answer_drop
DELETE FROM hookline.answer WHERE key = $1 AND claim = $2 AND status IS NULL

-- name: retire_answer
DELETE FROM hookline.answer WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM hookline.answer WHERE expires_at <= now() ORDER BY expires_at LIMIT $1::integer FOR UPDATE SKIP LOCKED))

-- name: retire_token
DELETE FROM hookline.revoked_token WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM hookline.revoked_token WHERE expires_at <= now() ORDER BY expires_at LIMIT $1::integer
  FOR UPDATE SKIP LOCKED))
