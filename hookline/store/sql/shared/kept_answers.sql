-- Stored responses to POSTs with an idempotency key. No lease lasts longer than :far. A lease that ends more than :far
-- from now was made while the clock was wrong, and counts as expired.

-- name: answer_hold
INSERT INTO hookline.answer (key, body, claim, held_until, expires_at)
VALUES (:key, :request, :claim, now() + :lease::interval, now() + :kept::interval)
ON CONFLICT (key) DO UPDATE
SET body = excluded.body, claim = excluded.claim, held_until = excluded.held_until, status = NULL, response = NULL,
    expires_at = excluded.expires_at
WHERE answer.expires_at <= now()
   OR (answer.status IS NULL AND answer.body = excluded.body
       AND (answer.held_until <= now() OR answer.held_until > now() + :far::interval))
RETURNING claim

-- name: answer
SELECT body, status, response FROM hookline.answer
WHERE key = :key AND expires_at > now()
  AND (status IS NOT NULL OR (held_until > now() AND held_until <= now() + :far::interval))

-- name: answer_held
SELECT body, status, response FROM hookline.answer WHERE key = :key

-- name: answer_renew
UPDATE hookline.answer SET held_until = now() + :lease::interval
WHERE key = :key AND claim = :claim AND status IS NULL RETURNING claim

-- name: answer_keep
UPDATE hookline.answer
SET status = :status, response = :response, claim = NULL, held_until = NULL, expires_at = now() + :kept::interval
WHERE key = :key AND claim = :claim AND status IS NULL RETURNING key

-- name: answer_drop
DELETE FROM hookline.answer WHERE key = :key AND claim = :claim AND status IS NULL
