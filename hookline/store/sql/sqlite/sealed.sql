-- What is sealed, by the key that sealed it. A range of heads is what one key sealed, or what all others did.

-- name: sealed_count
SELECT count(*) FROM (
    SELECT 1 FROM sealed_value WHERE place = :place AND head >= :start AND head < :stop LIMIT :most);

-- name: sealed_next
SELECT head, row, sealed FROM sealed_value
 WHERE place = :place AND head >= :start AND head < :stop AND (head, row) > (:head, :row)
 ORDER BY head, row LIMIT :limit;

-- name: reseal_endpoint_secrets
UPDATE endpoint SET secrets = :new WHERE id = :row AND secrets = :old;

-- name: reseal_endpoint_headers
UPDATE endpoint SET headers = :new WHERE id = :row AND headers = :old;

-- name: reseal_endpoint_sealed_url
UPDATE endpoint SET sealed_url = :new WHERE id = :row AND sealed_url = :old;

-- name: reseal_answer_response
-- By its index, as `sealed_next` finds it.
UPDATE answer SET response = :new
 WHERE substr(response, 1, 5) = substr(:old, 1, 5) AND CAST(lower(hex(key)) AS text) = :row AND response = :old;

-- name: secrets_watch
INSERT INTO older_secret (id, since) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: secret_signs
DELETE FROM older_secret WHERE id = ?;

-- name: secret_seen
INSERT INTO older_secret (id, since, seen_at) VALUES (:id, :now, :now)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
 WHERE older_secret.seen_at IS NULL OR older_secret.seen_at <= :now - 60000000;

-- name: older_secrets
SELECT id, since, seen_at FROM older_secret;
