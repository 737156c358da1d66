-- Relay: outbox rows become messages. Rows are selected by state and never by a cursor, because a cursor would skip
-- older rows that were set aside and are retried.

-- name: relay_rows
SELECT * FROM outbox WHERE error IS NULL AND id > 0 ORDER BY id LIMIT ?;

-- name: relay_app_by_id
SELECT no, org_id FROM application WHERE id = ? AND deleted_at IS NULL;

-- name: relay_app_by_uid
SELECT no, org_id FROM application WHERE org_id = ? AND uid = ? AND deleted_at IS NULL;

-- name: relay_organizations
-- Excludes the management organization, which Hookline creates for itself: its applications deliver operational
-- webhooks and alerts. Two rows are enough to see whether there is only one other organization.
SELECT id FROM organization WHERE id <> ? LIMIT 2;

-- name: relay_delete
DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?));

-- name: relay_set_aside
UPDATE outbox SET error = ?, set_aside_at = ? WHERE id = ?;

-- name: relay_keep_aside
-- Inserts nothing for a row that was copied before and is still in the outbox: it is set aside or waits for its retry.
INSERT INTO outbox (org_id, app, event_type, payload, event_id, channels, tags, ordering_key, deliver_at, policy, trace,
                    source, error, created_at, set_aside_at)
SELECT :org_id, :app, :event_type, :payload, :event_id, :channels, :tags, :ordering_key, :deliver_at, :policy, :trace,
       :source, :error, :now, :now
 WHERE NOT EXISTS (SELECT 1 FROM outbox
                    WHERE source = :source AND event_id = :event_id AND app = :app AND org_id IS :org_id);

-- name: relay_place
SELECT row_id, row_uid FROM outbox_place WHERE source = ?;

-- name: relay_place_first
INSERT OR IGNORE INTO outbox_place (source, row_id, row_uid, at) VALUES (?, ?, ?, ?);

-- name: relay_place_move
UPDATE outbox_place SET row_id = ?, row_uid = ?, at = ? WHERE source = ? AND row_id = ? AND row_uid = ?;

-- name: outbox
SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE error IS NULL AND id > 0 LIMIT :max_rows)) AS waiting,
       (SELECT created_at FROM outbox WHERE error IS NULL AND id > 0 ORDER BY id LIMIT 1) AS oldest,
       (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE error IS NOT NULL AND id > 0 LIMIT :max_rows)) AS set_aside;

-- name: set_aside
SELECT id, org_id, app, event_type, event_id, payload, error, source, created_at, set_aside_at
  FROM outbox WHERE error IS NOT NULL AND id > :iterator ORDER BY id LIMIT :limit;

-- name: set_aside_back
SELECT id, org_id, app, event_type, event_id, payload, error, source, created_at, set_aside_at
  FROM outbox WHERE error IS NOT NULL AND id < :iterator ORDER BY id DESC LIMIT :limit;
