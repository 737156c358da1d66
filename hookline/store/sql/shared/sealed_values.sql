-- The statements `sealed_...` count and read encrypted values by the key that encrypted them. The head of a value is
-- its first five bytes, which name its key. `start` and `stop` are a range of heads: the head of one configured key, or
-- the heads before, between or after those of configured keys. A value whose head belongs to no configured
-- key was encrypted by an unknown key, or is not encrypted.
--
-- The other statements are about token secrets, which do not encrypt: they sign and verify API tokens. The table
-- `older_secret` has the token secrets that no longer sign new tokens, but still verify the tokens that they signed.

-- name: sealed_count
SELECT count(*) FROM (
  SELECT 1 FROM hookline.sealed_value WHERE place = :place AND head >= :start AND head < :stop LIMIT :max_rows) AS found

-- name: sealed_next
SELECT head, "row", sealed FROM hookline.sealed_value
WHERE place = :place AND head >= :start AND head < :stop AND (head, "row") > (:head, :row)
ORDER BY head, "row" LIMIT :limit

-- name: secret_watch
INSERT INTO hookline.older_secret (id, since) VALUES (:id, now()) ON CONFLICT DO NOTHING

-- name: secret_signs
DELETE FROM hookline.older_secret WHERE id = :id

-- name: secret_seen
INSERT INTO hookline.older_secret (id, since, seen_at) VALUES (:id, now(), now())
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
WHERE older_secret.seen_at IS NULL OR older_secret.seen_at <= now() - interval '1 minute'

-- name: older_secrets
SELECT id, since, seen_at FROM hookline.older_secret
