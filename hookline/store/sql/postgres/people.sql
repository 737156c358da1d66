-- Operators, their sessions, and who guesses.

-- name: operator_insert
-- No row: the name is taken. Without the organization: nothing either, and `organization` tells which it was.
INSERT INTO hookline.operator (name, org_id, role, password)
SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT FROM hookline.organization WHERE id = $2)
ON CONFLICT DO NOTHING
RETURNING name, org_id, role, password, created_at

-- name: operator
SELECT name, org_id, role, password, created_at FROM hookline.operator WHERE name = $1

-- name: operators
SELECT name, org_id, role, password, created_at FROM hookline.operator
WHERE ($1::text IS NULL OR org_id = $1) AND name > $2 ORDER BY name LIMIT $3

-- name: operators_back
SELECT name, org_id, role, password, created_at FROM hookline.operator
WHERE ($1::text IS NULL OR org_id = $1) AND ($2 = '' OR name < $2) ORDER BY name DESC LIMIT $3

-- name: operator_change
UPDATE hookline.operator
SET role = coalesce($2, role), password = coalesce($3, password),
    sessions_after = CASE WHEN $3::text IS NULL THEN sessions_after ELSE clock_timestamp() END
WHERE name = $1 RETURNING name, org_id, role, password, created_at

-- name: operator_delete
DELETE FROM hookline.operator WHERE name = $1 RETURNING name

-- name: operator_password_is
-- Locked: until this transaction ends nobody changes it.
SELECT 1 FROM hookline.operator WHERE name = $1 AND org_id = $2 AND password = $3 FOR SHARE

-- name: session_insert
-- By the clock: this transaction may have waited for a change of the password.
INSERT INTO hookline.session
  (hash, org_id, app_no, role, operator, key_id, token, token_issued_at, created_at, seen_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, at, at, at + make_interval(secs => $9)
FROM (SELECT clock_timestamp() AS at) clock

-- name: session
-- Only while whatever it was begun with is good. A comparison with NULL is neither true nor false.
SELECT s.hash, s.org_id, coalesce(o.role, s.role) AS role, s.created_at, s.expires_at, s.operator, s.key_id, s.token,
       a.id AS app_id, k.name AS key_name
FROM hookline.session s
JOIN hookline.organization g ON g.id = s.org_id
LEFT JOIN hookline.application a ON a.no = s.app_no AND a.org_id = s.org_id AND a.deleted_at IS NULL
LEFT JOIN hookline.operator o ON o.name = s.operator AND o.org_id = s.org_id
LEFT JOIN hookline.api_key k ON k.id = s.key_id AND k.org_id = s.org_id AND k.revoked_at IS NULL
                            AND coalesce(k.expires_at > now(), TRUE)
WHERE s.hash = $1 AND s.expires_at > now() AND s.seen_at > now() - make_interval(secs => $2)
  AND (s.app_no IS NULL OR a.no IS NOT NULL)
  AND (s.operator IS NULL OR o.sessions_after <= s.created_at)
  AND (s.key_id IS NULL OR k.id IS NOT NULL)
  AND (s.token IS NULL
       OR (NOT EXISTS (SELECT FROM hookline.revoked_token r WHERE r.hash = s.token)
           AND coalesce(s.token_issued_at >= g.tokens_valid_after, g.tokens_valid_after IS NULL)
           AND coalesce(s.token_issued_at >= a.tokens_valid_after, a.tokens_valid_after IS NULL)))

-- name: session_touch
UPDATE hookline.session SET seen_at = now() WHERE hash = $1 AND seen_at <= now() - interval '1 minute'

-- name: session_end
DELETE FROM hookline.session WHERE hash = $1

-- name: sessions_end
WITH gone AS (DELETE FROM hookline.session WHERE operator = $1 RETURNING 1) SELECT count(*) FROM gone

-- name: guesses_locked
SELECT max(locked_until) FROM hookline.guess WHERE subject = ANY ($1::bytea[]) AND locked_until > now()

-- name: guesses_hold
-- Whoever guesses at the same subjects waits; in their order, or two would wait for each other. One that is new has no failures.
INSERT INTO hookline.guess (subject, failures, since, seen_at)
SELECT subject, 0, now(), now() FROM unnest($1::bytea[]) subject ORDER BY subject
ON CONFLICT (subject) DO UPDATE SET seen_at = now()
RETURNING subject, failures, since, locked_until, clock_timestamp() AS now

-- name: guesses_save
UPDATE hookline.guess g SET failures = x.failures, since = x.since, locked_until = x.locked_until
FROM unnest($1::bytea[], $2::integer[], $3::timestamptz[], $4::timestamptz[]) AS x (subject, failures, since, locked_until)
WHERE g.subject = x.subject

-- name: guesses_forgive
WITH found AS MATERIALIZED (
       SELECT subject FROM hookline.guess WHERE subject = ANY ($1::bytea[]) ORDER BY subject FOR UPDATE)
DELETE FROM hookline.guess g USING found WHERE g.subject = found.subject

-- name: retire_session
DELETE FROM hookline.session WHERE hash = ANY (ARRAY(
  SELECT hash FROM hookline.session WHERE expires_at <= now() ORDER BY expires_at LIMIT $1::integer
  FOR UPDATE SKIP LOCKED))

-- name: retire_guess
DELETE FROM hookline.guess WHERE subject = ANY (ARRAY(
  SELECT subject FROM hookline.guess WHERE seen_at < now() - make_interval(secs => $1) ORDER BY seen_at
  LIMIT $2::integer FOR UPDATE SKIP LOCKED))
