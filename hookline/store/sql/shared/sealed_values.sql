-- Encrypted values by key. The head of a value is its first five bytes, which name the key. A range of heads contains
-- the values of one key, or those between two keys.

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
