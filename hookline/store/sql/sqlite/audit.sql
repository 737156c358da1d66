-- The audit log: who did what.

-- name: audit_add
INSERT INTO audit (org_id, app_id, at, actor, actor_name, action, subject, detail, address)
VALUES (:org_id, :app_id, :now, :actor, :actor_name, :action, :subject, :detail, :address);

-- name: audit_near
-- The first entry of anybody's at or after an instant.
SELECT id FROM audit WHERE at >= ? ORDER BY at LIMIT 1;

-- name: audit_far
-- The last entry of anybody's before an instant.
SELECT id FROM audit WHERE at < ? ORDER BY at DESC LIMIT 1;

-- name: audit_end
-- Where a walk that looks at so many entries ends.
SELECT id FROM audit WHERE org_id = :org_id AND id < :near AND id > :far ORDER BY id DESC LIMIT 1 OFFSET :stride - 1;

-- name: audit_end_back
SELECT id FROM audit WHERE org_id = :org_id AND id > :near AND id < :far ORDER BY id LIMIT 1 OFFSET :stride - 1;

-- part: audit_matches
   AND (:app_id IS NULL OR app_id = :app_id)
   AND (:action IS NULL OR action = :action)
   AND (:by IS NULL OR actor_name = :by OR actor = :by)
   AND (:subject IS NULL OR subject = :subject)
   AND (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until)

-- name: audit_log
SELECT * FROM audit WHERE org_id = :org_id AND id < :near AND id > :far
   -- include: audit_matches
 ORDER BY id DESC LIMIT :limit;

-- name: audit_log_back
SELECT * FROM audit WHERE org_id = :org_id AND id > :near AND id < :far
   -- include: audit_matches
 ORDER BY id LIMIT :limit;

-- name: retire_audit
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ? ORDER BY at LIMIT ?);
