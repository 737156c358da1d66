-- Relay: outbox rows become messages, by state and never by a cursor: a late commit would be skipped.

-- name: relay_rows
SELECT * FROM outbox WHERE error IS NULL AND id > 0 ORDER BY id LIMIT ?;

-- name: relay_app_by_id
SELECT no, org_id FROM application WHERE id = ? AND deleted_at IS NULL;

-- name: relay_app_by_uid
SELECT no, org_id FROM application WHERE org_id = ? AND uid = ? AND deleted_at IS NULL;

-- name: relay_organizations
-- Without the management organization, which is nobody's.
SELECT id FROM organization WHERE id <> ? LIMIT 2;

-- name: relay_delete
DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?));

-- name: relay_set_aside
UPDATE outbox SET error = ? WHERE id = ?;
