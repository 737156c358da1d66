-- Operators, their sessions, and who guesses.

-- name: operator_insert
INSERT INTO operator (name, org_id, role, password, created_at, sessions_after)
VALUES (:name, :org_id, :role, :password, :now, :now) ON CONFLICT DO NOTHING;

-- name: operator
SELECT name, org_id, role, password, created_at FROM operator WHERE name = ?;

-- name: operators
SELECT name, org_id, role, password, created_at FROM operator
 WHERE (:of IS NULL OR org_id = :of) AND name > :iterator ORDER BY name LIMIT :limit;

-- name: operators_back
SELECT name, org_id, role, password, created_at FROM operator
 WHERE (:of IS NULL OR org_id = :of) AND name < :iterator ORDER BY name DESC LIMIT :limit;

-- name: operator_role
UPDATE operator SET role = :role WHERE name = :name;

-- name: operator_password
UPDATE operator SET password = :password, sessions_after = :now WHERE name = :name;

-- name: operator_delete
DELETE FROM operator WHERE name = ?;

-- name: operator_password_is
SELECT 1 FROM operator WHERE name = :operator AND org_id = :org_id AND password = :password;

-- name: session_insert
INSERT INTO session (hash, org_id, app_no, role, operator, key_id, token, token_issued_at, created_at, seen_at, expires_at)
VALUES (:hash, :org_id, :app_no, :role, :operator, :key_id, :token, :token_issued_at, :now, :now, :expires_at);

-- name: session
-- Only while whatever it was begun with is good. A comparison with NULL is neither true nor false.
SELECT s.hash, s.org_id, coalesce(o.role, s.role) AS role, s.created_at, s.expires_at, s.operator, s.key_id, s.token,
       a.id AS app_id, k.name AS key_name
  FROM session s
  JOIN organization g ON g.id = s.org_id
  LEFT JOIN application a ON a.no = s.app_no AND a.org_id = s.org_id AND a.deleted_at IS NULL
  LEFT JOIN operator o ON o.name = s.operator AND o.org_id = s.org_id
  LEFT JOIN api_key k ON k.id = s.key_id AND k.org_id = s.org_id AND k.revoked_at IS NULL
                     AND coalesce(k.expires_at > :now, TRUE)
 WHERE s.hash = :hash AND s.expires_at > :now AND s.seen_at > :idle
   AND (s.app_no IS NULL OR a.no IS NOT NULL)
   AND (s.operator IS NULL OR o.sessions_after <= s.created_at)
   AND (s.key_id IS NULL OR k.id IS NOT NULL)
   AND (s.token IS NULL
        OR (NOT EXISTS (SELECT 1 FROM revoked_token r WHERE r.hash = s.token)
            AND coalesce(s.token_issued_at >= g.tokens_valid_after, g.tokens_valid_after IS NULL)
            AND coalesce(s.token_issued_at >= a.tokens_valid_after, a.tokens_valid_after IS NULL)));

-- name: session_touch
UPDATE session SET seen_at = :now WHERE hash = :hash AND seen_at <= :now - 60000000;

-- name: session_end
DELETE FROM session WHERE hash = ?;

-- name: sessions_end
DELETE FROM session WHERE operator = ?;

-- name: guesses
SELECT subject, failures, since, locked_until FROM guess WHERE subject = ?;

-- name: guess_save
INSERT INTO guess (subject, failures, since, seen_at, locked_until)
VALUES (:subject, :failures, :since, :now, :locked_until)
ON CONFLICT (subject) DO UPDATE
   SET failures = excluded.failures, since = excluded.since, seen_at = excluded.seen_at,
       locked_until = excluded.locked_until;

-- name: guess_forgive
DELETE FROM guess WHERE subject = ?;

-- name: retire_session
DELETE FROM session WHERE hash IN (SELECT hash FROM session WHERE expires_at <= ? ORDER BY expires_at LIMIT ?);

-- name: retire_guess
DELETE FROM guess WHERE subject IN (SELECT subject FROM guess WHERE seen_at < ? ORDER BY seen_at LIMIT ?);
