-- API keys and revoked tokens.

-- name: api_key_insert
-- Returns no row if the organization does not exist, or if the application is deleted or belongs to another
-- organization.
INSERT INTO hookline.api_key (id, org_id, app_no, name, scope, hash, hint, created_at, expires_at)
SELECT :id, o.id, :app_no::bigint, :name, :scope, :hash::bytea, :hint, now(), :expires_at::timestamptz
FROM hookline.organization o
WHERE o.id = :org_id
  AND (:app_no::bigint IS NULL
       OR EXISTS (SELECT 1 FROM hookline.application a WHERE a.no = :app_no AND a.org_id = o.id AND a.deleted_at IS NULL))
RETURNING id

-- part: api_key_shown
SELECT k.*, a.id AS app_id FROM hookline.api_key k LEFT JOIN hookline.application a ON a.no = k.app_no

-- name: api_key
-- include: api_key_shown
WHERE k.org_id = :org_id AND k.id = :key_id AND k.revoked_at IS NULL

-- name: api_key_by_hash
-- include: api_key_shown
WHERE k.hash = :hash AND k.revoked_at IS NULL AND a.deleted_at IS NULL

-- name: api_keys
-- include: api_key_shown
WHERE k.org_id = :org_id AND k.id > :iterator AND k.revoked_at IS NULL ORDER BY k.id LIMIT :limit

-- name: api_keys_back
-- include: api_key_shown
WHERE k.org_id = :org_id AND k.id < :iterator AND k.revoked_at IS NULL ORDER BY k.id DESC LIMIT :limit

-- name: api_key_revoke
UPDATE hookline.api_key SET revoked_at = now() WHERE org_id = :org_id AND id = :key_id AND revoked_at IS NULL RETURNING id

-- name: api_key_touch
UPDATE hookline.api_key SET last_used_at = now()
WHERE id = :key_id AND (last_used_at IS NULL OR last_used_at <= now() - interval '1 minute')

-- name: token_revoke
INSERT INTO hookline.revoked_token (hash, expires_at) VALUES (:hash, :until) ON CONFLICT DO NOTHING RETURNING 1

-- name: token_revoked
SELECT 1 FROM hookline.revoked_token WHERE hash = :hash
