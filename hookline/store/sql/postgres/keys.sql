-- API keys, and tokens that were given up.

-- name: api_key_insert
-- No row: the application is not the organization's, or is gone.
INSERT INTO hookline.api_key (id, org_id, app_no, name, scope, hash, hint, created_at, expires_at)
SELECT $1, $2, $3::bigint, $4, $5, $6, $7, now(), $8::timestamptz
WHERE $3::bigint IS NULL
   OR EXISTS (SELECT FROM hookline.application WHERE no = $3::bigint AND org_id = $2 AND deleted_at IS NULL)
RETURNING id

-- name: api_key
SELECT k.*, a.id AS app_id FROM hookline.api_key k LEFT JOIN hookline.application a ON a.no = k.app_no
WHERE k.org_id = $1 AND k.id = $2 AND k.revoked_at IS NULL

-- name: api_key_by_hash
SELECT k.*, a.id AS app_id FROM hookline.api_key k LEFT JOIN hookline.application a ON a.no = k.app_no
WHERE k.hash = $1 AND k.revoked_at IS NULL AND a.deleted_at IS NULL

-- name: api_keys
SELECT k.*, a.id AS app_id FROM hookline.api_key k LEFT JOIN hookline.application a ON a.no = k.app_no
WHERE k.org_id = $1 AND k.id > $2 AND k.revoked_at IS NULL ORDER BY k.id LIMIT $3

-- name: api_keys_back
SELECT k.*, a.id AS app_id FROM hookline.api_key k LEFT JOIN hookline.application a ON a.no = k.app_no
WHERE k.org_id = $1 AND ($2 = '' OR k.id < $2) AND k.revoked_at IS NULL ORDER BY k.id DESC LIMIT $3

-- name: api_key_revoke
UPDATE hookline.api_key SET revoked_at = now() WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL RETURNING id

-- name: api_key_touch
UPDATE hookline.api_key SET last_used_at = now()
WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= now() - interval '1 minute')

-- name: token_revoke
INSERT INTO hookline.revoked_token (hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING TRUE

-- name: token_revoked
SELECT EXISTS (SELECT FROM hookline.revoked_token WHERE hash = $1)
