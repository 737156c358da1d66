-- Operators, their sessions, and failed logins.

-- name: operator_insert
-- Returns no row if the name is taken, or if the organization does not exist.
INSERT INTO hookline.operator (name, org_id, role, password, created_at, sessions_after)
SELECT :name, o.id, :role, :password, now(), now() FROM hookline.organization o WHERE o.id = :org_id
ON CONFLICT DO NOTHING
RETURNING name, org_id, role, password, created_at

-- name: operator
SELECT name, org_id, role, password, created_at FROM hookline.operator WHERE name = :name

-- name: operators
SELECT name, org_id, role, password, created_at FROM hookline.operator
WHERE (:org_id::text IS NULL OR org_id = :org_id) AND name > :iterator ORDER BY name LIMIT :limit

-- name: operators_back
SELECT name, org_id, role, password, created_at FROM hookline.operator
WHERE (:org_id::text IS NULL OR org_id = :org_id) AND name < :iterator ORDER BY name DESC LIMIT :limit

-- name: operator_change
UPDATE hookline.operator
SET role = coalesce(:role, role), password = coalesce(:password, password),
    sessions_after = CASE WHEN :password::text IS NULL THEN sessions_after ELSE clock_timestamp() END
WHERE name = :name RETURNING name, org_id, role, password, created_at

-- name: operator_delete
DELETE FROM hookline.operator WHERE name = :name RETURNING name

-- name: operator_password_is
-- The row is locked, so that no other transaction changes it before this one ends.
SELECT 1 FROM hookline.operator WHERE name = :operator AND org_id = :org_id AND password = :password FOR SHARE

-- name: session_insert
-- The session begins at the current time, not at the start of this transaction: the transaction may have waited for a
-- password change, which ends all sessions that began before the change.
INSERT INTO hookline.session
  (hash, org_id, app_no, role, operator, key_id, token, token_issued_at, created_at, seen_at, expires_at)
SELECT :hash, :org_id, :app_no, :role, :operator, :key_id, :token, :token_issued_at, at, at, at + :lifetime::interval
FROM (SELECT clock_timestamp() AS at) clock WHERE TRUE
ON CONFLICT DO NOTHING RETURNING 1

-- name: session
-- Returns a session only while its operator, key, token and application are valid. A comparison with NULL is neither
-- true nor false, so the conditions handle NULL explicitly.
SELECT s.hash, s.org_id, coalesce(o.role, s.role) AS role, s.created_at, s.expires_at, s.operator, s.key_id, s.token,
       a.id AS app_id, k.name AS key_name
FROM hookline.session s
JOIN hookline.organization g ON g.id = s.org_id
LEFT JOIN hookline.application a ON a.no = s.app_no AND a.org_id = s.org_id AND a.deleted_at IS NULL
LEFT JOIN hookline.operator o ON o.name = s.operator AND o.org_id = s.org_id
LEFT JOIN hookline.api_key k ON k.id = s.key_id AND k.org_id = s.org_id AND k.revoked_at IS NULL
                            AND coalesce(k.expires_at > now(), TRUE)
WHERE s.hash = :hash AND s.expires_at > now() AND s.seen_at > now() - :idle::interval
  AND (s.app_no IS NULL OR a.no IS NOT NULL)
  AND (s.operator IS NULL OR o.sessions_after <= s.created_at)
  AND (s.key_id IS NULL OR k.id IS NOT NULL)
  AND (s.token IS NULL
       OR (NOT EXISTS (SELECT 1 FROM hookline.revoked_token r WHERE r.hash = s.token)
           AND coalesce(s.token_issued_at >= g.tokens_valid_after, g.tokens_valid_after IS NULL)
           AND coalesce(s.token_issued_at >= a.tokens_valid_after, a.tokens_valid_after IS NULL)))

-- name: session_touch
UPDATE hookline.session SET seen_at = now() WHERE hash = :hash AND seen_at <= now() - interval '1 minute'

-- name: session_end
DELETE FROM hookline.session WHERE hash = :hash

-- name: sessions_end
DELETE FROM hookline.session WHERE operator = :operator RETURNING 1

-- name: guess_locked
SELECT locked_until FROM hookline.guess WHERE subject = :subject AND locked_until > now()

-- name: guess_hold
-- A subject is the hash that identifies a counter of failed sign-ins, such as that of one name and one address. A
-- concurrent sign-in with the same subject waits here. A new subject has no failures.
INSERT INTO hookline.guess (subject, failures, since, seen_at) VALUES (:subject, 0, now(), now())
ON CONFLICT (subject) DO UPDATE SET seen_at = excluded.seen_at
RETURNING subject, failures, since, locked_until, clock_timestamp() AS now

-- name: guess_save
UPDATE hookline.guess SET failures = :failures, since = :since, locked_until = :locked_until WHERE subject = :subject

-- name: guess_forgive
DELETE FROM hookline.guess WHERE subject = :subject
