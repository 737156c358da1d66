-- The audit log of changes that users make.

-- name: audit_add
INSERT INTO hookline.audit (org_id, app_id, at, actor, actor_name, action, subject, detail, address)
VALUES (:org_id, :app_id, now(), :actor, :actor_name, :action, :subject, :detail, :address)

-- name: audit_near
-- The first entry of any organization at or after an instant.
SELECT id FROM hookline.audit WHERE at >= :at ORDER BY at LIMIT 1

-- name: audit_far
-- The last entry of any organization before an instant.
SELECT id FROM hookline.audit WHERE at < :at ORDER BY at DESC LIMIT 1

-- name: audit_end
-- The entry at which a scan over :stride entries ends.
SELECT id FROM hookline.audit WHERE org_id = :org_id AND id < :near AND id > :far
ORDER BY id DESC LIMIT 1 OFFSET :stride::integer - 1

-- name: audit_end_back
SELECT id FROM hookline.audit WHERE org_id = :org_id AND id > :near AND id < :far
ORDER BY id LIMIT 1 OFFSET :stride::integer - 1

-- part: audit_matches
  AND (:app_id::text IS NULL OR app_id = :app_id)
  AND (:action::text IS NULL OR action = :action)
  AND (:actor::text IS NULL OR actor_name = :actor OR actor = :actor)
  AND (:subject::text IS NULL OR subject = :subject)
  AND (:since::timestamptz IS NULL OR at >= :since) AND (:until::timestamptz IS NULL OR at < :until)

-- name: audit_log
SELECT * FROM hookline.audit WHERE org_id = :org_id AND id < :near AND id > :far
  -- include: audit_matches
ORDER BY id DESC LIMIT :limit

-- name: audit_log_back
SELECT * FROM hookline.audit WHERE org_id = :org_id AND id > :near AND id < :far
  -- include: audit_matches
ORDER BY id LIMIT :limit
