-- Organizations and their applications.

-- name: organization_insert
INSERT INTO hookline.organization (id, name, tokens_valid_after, created_at)
VALUES (:id, :name, :tokens_valid_after, :created_at) ON CONFLICT DO NOTHING

-- name: organization
SELECT * FROM hookline.organization WHERE id = :org_id

-- name: revoke_org_tokens
UPDATE hookline.organization
SET tokens_valid_after = CASE WHEN tokens_valid_after > :before::timestamptz THEN tokens_valid_after ELSE :before END
WHERE id = :org_id RETURNING 1

-- name: revoke_app_tokens
UPDATE hookline.application
SET tokens_valid_after = CASE WHEN tokens_valid_after > :before::timestamptz THEN tokens_valid_after ELSE :before END
WHERE no = :app_no AND org_id = :org_id RETURNING 1

-- name: application_insert
-- Returns no row if the uid is taken, or if the organization does not exist.
INSERT INTO hookline.application (id, org_id, uid, name, throttle_rate, metadata, created_at, updated_at)
SELECT :id, o.id, :uid, :name, :throttle_rate, :metadata::jsonb, now(), now()
FROM hookline.organization o WHERE o.id = :org_id
ON CONFLICT DO NOTHING
RETURNING *

-- name: application_by_id
SELECT * FROM hookline.application WHERE org_id = :org_id AND id = :ref AND deleted_at IS NULL

-- name: application_by_uid
SELECT * FROM hookline.application WHERE org_id = :org_id AND uid = :ref AND deleted_at IS NULL

-- name: application_org
SELECT org_id FROM hookline.application WHERE no = :app_no AND deleted_at IS NULL

-- name: applications
SELECT * FROM hookline.application
WHERE org_id = :org_id AND id > :iterator AND deleted_at IS NULL ORDER BY id LIMIT :limit

-- name: applications_back
SELECT * FROM hookline.application
WHERE org_id = :org_id AND id < :iterator AND deleted_at IS NULL ORDER BY id DESC LIMIT :limit

-- name: application_lock
SELECT * FROM hookline.application WHERE no = :app_no AND deleted_at IS NULL FOR NO KEY UPDATE

-- name: application_update
-- Returns no row if another application of the organization has this uid.
UPDATE hookline.application
SET name = :name, uid = :uid, throttle_rate = :throttle_rate, metadata = :metadata::jsonb, updated_at = now()
WHERE no = :app_no
  AND NOT EXISTS (SELECT 1 FROM hookline.application o
                  WHERE o.org_id = application.org_id AND o.uid = :uid AND o.no <> :app_no AND o.deleted_at IS NULL)
RETURNING *

-- name: application_delete
UPDATE hookline.application SET deleted_at = now(), updated_at = now() WHERE no = :app_no AND deleted_at IS NULL RETURNING no

-- name: application_lanes
SELECT endpoint_no FROM hookline.lane
WHERE endpoint_no IN (SELECT no FROM hookline.endpoint WHERE app_no = :app_no AND deleted_at IS NULL)
ORDER BY endpoint_no FOR NO KEY UPDATE

-- name: lanes_rate
UPDATE hookline.lane SET app_rate = :rate::float8, turn_at = NULL WHERE endpoint_no = ANY (:nos::bigint[])

-- name: app_pace_save
-- `tat` is the time at which the rate limit expects the next request (GCRA). It stays as it is, so that requests that
-- started under the old rate still count. It moves back only if it is further in the future than the new rate allows.
INSERT INTO hookline.app_pace (app_no) VALUES (:app_no) ON CONFLICT (app_no) DO UPDATE
SET tat = CASE WHEN app_pace.tat > clock_timestamp() + :ahead::interval THEN clock_timestamp() + :ahead::interval
               ELSE app_pace.tat END,
    tail_at = NULL

-- name: app_pace_delete
DELETE FROM hookline.app_pace WHERE app_no = :app_no
