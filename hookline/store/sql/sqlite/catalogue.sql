-- Organizations, applications, event types, endpoints.

-- name: organization_insert
INSERT INTO organization (id, name, tokens_valid_after, created_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: revoke_org_tokens
UPDATE organization SET tokens_valid_after = max(coalesce(tokens_valid_after, 0), :before) WHERE id = :org_id;

-- name: revoke_app_tokens
UPDATE application SET tokens_valid_after = max(coalesce(tokens_valid_after, 0), :before)
 WHERE no = :app_no AND org_id = :org_id;

-- name: application_insert
INSERT INTO application (id, org_id, uid, name, throttle_rate, metadata, created_at, updated_at)
VALUES (:id, :org_id, :uid, :name, :throttle_rate, :metadata, :now, :now)
RETURNING *;

-- name: application_by_id
SELECT * FROM application WHERE id = :ref AND org_id = :org_id AND deleted_at IS NULL;

-- name: application_by_uid
SELECT * FROM application WHERE org_id = :org_id AND uid = :ref AND deleted_at IS NULL;

-- name: application_org
SELECT org_id FROM application WHERE no = ? AND deleted_at IS NULL;

-- name: applications
SELECT * FROM application WHERE org_id = :of AND id > :iterator AND deleted_at IS NULL ORDER BY id LIMIT :limit;

-- name: applications_back
SELECT * FROM application WHERE org_id = :of AND id < :iterator AND deleted_at IS NULL ORDER BY id DESC LIMIT :limit;

-- name: application_by_no
SELECT * FROM application WHERE no = ? AND deleted_at IS NULL;

-- name: application_update
UPDATE application
   SET name = :name, uid = :uid, throttle_rate = :throttle_rate, metadata = :metadata, updated_at = :now
 WHERE no = :no
RETURNING *;

-- name: application_lanes_rate
UPDATE lane SET app_rate = :rate, turn_at = NULL
 WHERE endpoint_no IN (SELECT no FROM endpoint WHERE app_no = :app_no AND deleted_at IS NULL);

-- name: application_lanes_wake
-- A token for each of its lanes in which something waits.
INSERT INTO wake (app_no, endpoint_no, at, floor)
SELECT :app_no, no, max(:now, due_at), due_at
  FROM (SELECT e.no, (SELECT d.due_at FROM delivery d WHERE d.endpoint_no = e.no AND d.state < 2
                       ORDER BY d.due_at LIMIT 1) AS due_at
          FROM endpoint e WHERE e.app_no = :app_no AND e.deleted_at IS NULL)
 WHERE due_at IS NOT NULL;

-- name: app_pace_save
-- What was started under the rate before still counts, as far as the new one looks ahead: until :farthest.
INSERT INTO app_pace (app_no) VALUES (:app_no) ON CONFLICT (app_no) DO UPDATE SET tat = min(tat, :farthest), tail_at = NULL;

-- name: app_pace_delete
DELETE FROM app_pace WHERE app_no = ?;

-- name: application_delete
UPDATE application SET deleted_at = :now, updated_at = :now WHERE no = :app_no AND deleted_at IS NULL;

-- name: application_lanes_delete
UPDATE lane SET status = 3, revision = revision + 1
 WHERE endpoint_no IN (SELECT no FROM endpoint WHERE app_no = :app_no AND deleted_at IS NULL);

-- name: application_endpoints_delete
UPDATE endpoint SET status = 3, deleted_at = :now, updated_at = :now, revision = revision + 1
 WHERE app_no = :app_no AND deleted_at IS NULL
RETURNING no;

-- name: event_type_save
INSERT INTO event_type (org_id, name, description, archived, deprecated, schemas, feature_flags, group_name, policy,
                        validated, created_at, updated_at)
VALUES (:org_id, :name, :description, :archived, :deprecated, :schemas, :feature_flags, :group_name, :policy,
        :validated, :created_at, :updated_at)
ON CONFLICT (org_id, name) DO UPDATE
   SET description = excluded.description, archived = excluded.archived, deprecated = excluded.deprecated,
       schemas = excluded.schemas, feature_flags = excluded.feature_flags, group_name = excluded.group_name,
       policy = excluded.policy, validated = excluded.validated, updated_at = excluded.updated_at
 WHERE :whatever OR event_type.updated_at = :seen_at
RETURNING *;

-- name: event_type
SELECT * FROM event_type WHERE org_id = ? AND name = ?;

-- name: event_types
SELECT * FROM event_type
 WHERE org_id = :of AND name > :iterator AND (:archived OR NOT archived) ORDER BY name LIMIT :limit;

-- name: event_types_back
SELECT * FROM event_type
 WHERE org_id = :of AND name < :iterator AND (:archived OR NOT archived) ORDER BY name DESC LIMIT :limit;

-- name: event_type_expunge
DELETE FROM event_type WHERE org_id = ? AND name = ?;

-- name: endpoint_count
SELECT count(*) FROM (SELECT 1 FROM endpoint WHERE app_no = ? AND deleted_at IS NULL LIMIT ?);

-- name: endpoint_insert
INSERT INTO endpoint (id, app_no, uid, url, sealed_url, description, version, event_types, channels, status, throttle_rate,
                      concurrency, ordering, on_death, scheme, secrets, headers, metadata, policy, created_at, updated_at)
VALUES (:id, :app_no, :uid, :url, :sealed_url, :description, :version, :event_types, :channels, :status, :throttle_rate,
        :concurrency, :ordering, :on_death, :scheme, :secrets, :headers, :metadata, :policy, :now, :now)
RETURNING no;

-- name: lane_insert
INSERT INTO lane (endpoint_no, app_no, status, throttle_rate, concurrency, app_rate)
SELECT ?, a.no, ?, ?, ?, a.throttle_rate FROM application a WHERE a.no = ?;

-- name: endpoint_update
UPDATE endpoint
   SET url = :url, sealed_url = :sealed_url, uid = :uid, description = :description, version = :version, event_types = :event_types,
       channels = :channels, throttle_rate = :throttle_rate, concurrency = :concurrency, ordering = :ordering,
       on_death = :on_death, scheme = :scheme, secrets = :secrets, headers = :headers, metadata = :metadata, policy = :policy,
       revision = revision + 1, updated_at = :now
 WHERE no = :no;

-- name: lane_limits
UPDATE lane SET throttle_rate = :throttle_rate, concurrency = :concurrency, revision = revision + 1
 WHERE endpoint_no = :no;

-- name: endpoint_status
UPDATE endpoint SET status = :status, status_reason = :reason, revision = revision + 1, updated_at = :now
 WHERE no = :no AND deleted_at IS NULL;

-- name: endpoints_delete
UPDATE endpoint SET status = 3, deleted_at = :now, updated_at = :now, revision = revision + 1
 WHERE no = :no AND deleted_at IS NULL;

-- name: lanes_delete_mark
UPDATE lane SET status = 3, revision = revision + 1 WHERE endpoint_no = ?;

-- name: held_stretch
-- A stretch of what a paused lane holds, in the order of the due index.
SELECT due_at, id FROM delivery
 WHERE endpoint_no = :no AND state < 2 AND (due_at, id) > (:due_at, :id)
 ORDER BY due_at, id LIMIT 1 OFFSET :limit;

-- name: held_renew
UPDATE delivery
   SET expires_at = :now + cast(round(coalesce(json_extract(policy, '$.max_age'), :max_age) * 1000000) AS integer)
 WHERE endpoint_no = :no AND state < 2 AND (due_at, id) > (:due_at, :id) AND (due_at, id) <= (:last_due, :last_id);

-- name: endpoint_by_no
SELECT e.*, a.id AS app_id, a.org_id AS org_id FROM endpoint e JOIN application a ON a.no = e.app_no
 WHERE e.no = ? AND e.deleted_at IS NULL;

-- name: endpoint_by_ref
SELECT e.*, a.id AS app_id, a.org_id AS org_id FROM endpoint e JOIN application a ON a.no = e.app_no
 WHERE e.id = :ref AND e.app_no = :app_no AND e.deleted_at IS NULL;

-- name: endpoint_by_uid
SELECT e.*, a.id AS app_id, a.org_id AS org_id FROM endpoint e JOIN application a ON a.no = e.app_no
 WHERE e.app_no = :app_no AND e.uid = :ref AND e.deleted_at IS NULL;

-- name: endpoint_by_id
SELECT e.*, a.id AS app_id, a.org_id AS org_id FROM endpoint e JOIN application a ON a.no = e.app_no
 WHERE e.id = ? AND a.org_id = ? AND e.deleted_at IS NULL;

-- name: endpoints
SELECT e.*, a.id AS app_id, a.org_id AS org_id FROM endpoint e JOIN application a ON a.no = e.app_no
 WHERE e.app_no = :of AND e.id > :iterator AND e.deleted_at IS NULL ORDER BY e.id LIMIT :limit;

-- name: endpoints_back
SELECT e.*, a.id AS app_id, a.org_id AS org_id FROM endpoint e JOIN application a ON a.no = e.app_no
 WHERE e.app_no = :of AND e.id < :iterator AND e.deleted_at IS NULL ORDER BY e.id DESC LIMIT :limit;

-- name: endpoints_for
SELECT e.*, a.id AS app_id, a.org_id AS org_id FROM endpoint e JOIN application a ON a.no = e.app_no
 WHERE e.no IN (SELECT value FROM json_each(?));
