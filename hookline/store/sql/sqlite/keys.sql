-- API keys, and tokens that were given up.

-- name: api_key_insert
INSERT INTO api_key (id, org_id, app_no, name, scope, hash, hint, created_at, expires_at)
VALUES (:id, :org_id, :app_no, :name, :scope, :hash, :hint, :now, :expires_at);

-- name: api_key_application
SELECT 1 FROM application WHERE no = :app_no AND org_id = :org_id AND deleted_at IS NULL;

-- name: api_key
SELECT k.*, a.id AS app_id FROM api_key k LEFT JOIN application a ON a.no = k.app_no
 WHERE k.id = :key_id AND k.org_id = :org_id AND k.revoked_at IS NULL;

-- name: api_key_by_hash
SELECT k.*, a.id AS app_id FROM api_key k LEFT JOIN application a ON a.no = k.app_no
 WHERE k.hash = ? AND k.revoked_at IS NULL AND a.deleted_at IS NULL;

-- name: api_keys
SELECT k.*, a.id AS app_id FROM api_key k LEFT JOIN application a ON a.no = k.app_no
 WHERE k.org_id = :of AND k.id > :iterator AND k.revoked_at IS NULL ORDER BY k.id LIMIT :limit;

-- name: api_keys_back
SELECT k.*, a.id AS app_id FROM api_key k LEFT JOIN application a ON a.no = k.app_no
 WHERE k.org_id = :of AND k.id < :iterator AND k.revoked_at IS NULL ORDER BY k.id DESC LIMIT :limit;

-- name: api_key_revoke
UPDATE api_key SET revoked_at = :now WHERE id = :key_id AND org_id = :org_id AND revoked_at IS NULL;

-- name: api_key_touch
UPDATE api_key SET last_used_at = :now
 WHERE id = :key_id AND (last_used_at IS NULL OR last_used_at <= :now - 60000000);

-- name: token_revoke
INSERT INTO revoked_token (hash, expires_at) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: token_revoked
SELECT 1 FROM revoked_token WHERE hash = ?;
