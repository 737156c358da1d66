-- What is sealed, by the key that sealed it. A range of heads is what one key sealed, or what all others did.

-- name: sealed_count
SELECT count(*) FROM (
    SELECT FROM hookline.sealed_value WHERE place = $1 AND head >= $2 AND head < $3 LIMIT $4) AS found

-- name: sealed_next
SELECT head, "row", sealed FROM hookline.sealed_value
WHERE place = $1 AND head >= $2 AND head < $3 AND (head, "row") > ($4, $5)
ORDER BY head, "row" LIMIT $6

-- name: reseal_endpoint_secrets
-- Rows that somebody else has locked are left for later: nobody waits here with a lock in hand, so there is no deadlock.
WITH held AS MATERIALIZED (
    SELECT e.no, given.new
    FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS given (id, old, new)
    JOIN hookline.endpoint e ON e.id = given.id AND e.secrets = given.old
    FOR NO KEY UPDATE OF e SKIP LOCKED),
done AS (UPDATE hookline.endpoint e SET secrets = held.new FROM held WHERE e.no = held.no RETURNING 1)
SELECT count(*) FROM done

-- name: reseal_endpoint_headers
WITH held AS MATERIALIZED (
    SELECT e.no, given.new
    FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS given (id, old, new)
    JOIN hookline.endpoint e ON e.id = given.id AND e.headers = given.old
    FOR NO KEY UPDATE OF e SKIP LOCKED),
done AS (UPDATE hookline.endpoint e SET headers = held.new FROM held WHERE e.no = held.no RETURNING 1)
SELECT count(*) FROM done

-- name: reseal_endpoint_sealed_url
WITH held AS MATERIALIZED (
    SELECT e.no, given.new
    FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS given (id, old, new)
    JOIN hookline.endpoint e ON e.id = given.id AND e.sealed_url = given.old
    FOR NO KEY UPDATE OF e SKIP LOCKED),
done AS (UPDATE hookline.endpoint e SET sealed_url = held.new FROM held WHERE e.no = held.no RETURNING 1)
SELECT count(*) FROM done

-- name: reseal_answer_response
WITH held AS MATERIALIZED (
    SELECT a.key, given.new
    FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS given (id, old, new)
    JOIN hookline.answer a ON a.key = decode(given.id, 'hex') AND a.response = given.old
    FOR NO KEY UPDATE OF a SKIP LOCKED),
done AS (UPDATE hookline.answer a SET response = held.new FROM held WHERE a.key = held.key RETURNING 1)
SELECT count(*) FROM done

-- name: secrets_watch
INSERT INTO hookline.older_secret (id, since) SELECT id, now() FROM unnest($1::bytea[]) AS given (id) ON CONFLICT DO NOTHING

-- name: secret_signs
DELETE FROM hookline.older_secret WHERE id = $1

-- name: secret_seen
INSERT INTO hookline.older_secret AS known (id, since, seen_at) VALUES ($1, now(), now())
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
WHERE known.seen_at IS NULL OR known.seen_at <= now() - interval '1 minute'

-- name: older_secrets
SELECT id, since, seen_at FROM hookline.older_secret
