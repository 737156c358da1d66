-- The audit log: who did what.

-- name: audit_add
INSERT INTO hookline.audit (org_id, app_id, actor, actor_name, action, subject, detail, address)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])

-- name: audit_near
-- The first entry of anybody's at or after an instant.
SELECT id FROM hookline.audit WHERE at >= $1 ORDER BY at LIMIT 1

-- name: audit_far
-- The last entry of anybody's before an instant.
SELECT id FROM hookline.audit WHERE at < $1 ORDER BY at DESC LIMIT 1

-- name: audit_end
-- Where a walk that looks at so many entries ends.
SELECT id FROM hookline.audit WHERE org_id = $1 AND id < $2 AND id > $3 ORDER BY id DESC LIMIT 1 OFFSET $4::integer - 1

-- name: audit_end_back
SELECT id FROM hookline.audit WHERE org_id = $1 AND id > $2 AND id < $3 ORDER BY id LIMIT 1 OFFSET $4::integer - 1

-- part: audit_matches
  AND ($5::text IS NULL OR app_id = $5)
  AND ($6::text IS NULL OR action = $6)
  AND ($7::text IS NULL OR actor_name = $7 OR actor = $7)
  AND ($8::text IS NULL OR subject = $8)
  AND ($9::timestamptz IS NULL OR at >= $9) AND ($10::timestamptz IS NULL OR at < $10)

-- name: audit_log
SELECT * FROM hookline.audit WHERE org_id = $1 AND id < $2 AND id > $3
  -- include: audit_matches
ORDER BY id DESC LIMIT $4

-- name: audit_log_back
SELECT * FROM hookline.audit WHERE org_id = $1 AND id > $2 AND id < $3
  -- include: audit_matches
ORDER BY id LIMIT $4

-- name: retire_audit
DELETE FROM hookline.audit WHERE id = ANY (ARRAY(
  SELECT id FROM hookline.audit WHERE at < now() - make_interval(days => $1::integer) ORDER BY at LIMIT $2::integer))
