-- Organizations, applications, event types, endpoints. Lane before endpoint, always: record locks them in that order too.

-- name: organization_insert
INSERT INTO hookline.organization (id, name, tokens_valid_after, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING

-- name: revoke_org_tokens
UPDATE hookline.organization SET tokens_valid_after = greatest(tokens_valid_after, $2::timestamptz) WHERE id = $1

-- name: revoke_app_tokens
UPDATE hookline.application SET tokens_valid_after = greatest(tokens_valid_after, $3::timestamptz)
WHERE no = $2 AND org_id = $1

-- name: application_org
SELECT org_id FROM hookline.application WHERE no = $1 AND deleted_at IS NULL

-- name: application_insert
INSERT INTO hookline.application (id, org_id, uid, name, throttle_rate, metadata)
VALUES ($1, $2, $3, $4, $5, $6::jsonb)
RETURNING *

-- name: application_by_id
SELECT * FROM hookline.application WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL

-- name: application_by_uid
SELECT * FROM hookline.application WHERE org_id = $1 AND uid = $2 AND deleted_at IS NULL

-- name: applications
SELECT * FROM hookline.application WHERE org_id = $1 AND id > $2 AND deleted_at IS NULL ORDER BY id LIMIT $3

-- name: applications_back
SELECT * FROM hookline.application
WHERE org_id = $1 AND ($2 = '' OR id < $2) AND deleted_at IS NULL ORDER BY id DESC LIMIT $3

-- name: application_lock
SELECT * FROM hookline.application WHERE no = $1 AND deleted_at IS NULL FOR NO KEY UPDATE

-- name: application_update
UPDATE hookline.application SET name = $2, uid = $3, throttle_rate = $4, metadata = $5::jsonb, updated_at = now()
WHERE no = $1
RETURNING *

-- name: application_delete
UPDATE hookline.application SET deleted_at = now(), updated_at = now() WHERE no = $1 AND deleted_at IS NULL RETURNING no

-- name: application_lanes
SELECT endpoint_no FROM hookline.lane
WHERE endpoint_no IN (SELECT no FROM hookline.endpoint WHERE app_no = $1 AND deleted_at IS NULL)
ORDER BY endpoint_no FOR NO KEY UPDATE

-- name: lanes_rate
UPDATE hookline.lane SET app_rate = $2::float8, turn_at = NULL WHERE endpoint_no = ANY ($1::bigint[])

-- name: lanes_wake
-- A token for each in which something waits.
INSERT INTO hookline.wake (app_no, endpoint_no, at, floor)
SELECT d.app_no, no, greatest(now(), d.due_at), d.due_at
FROM unnest($1::bigint[]) AS no
CROSS JOIN LATERAL (
  SELECT app_no, due_at FROM hookline.delivery WHERE endpoint_no = no AND state < 2 ORDER BY due_at LIMIT 1) d

-- name: app_pace_save
-- $2 how many seconds the new rate looks ahead. What was started under the one before still counts, as far as that.
INSERT INTO hookline.app_pace AS p (app_no) VALUES ($1) ON CONFLICT (app_no) DO UPDATE
SET tat = CASE WHEN p.tat IS NOT NULL THEN least(p.tat, clock_timestamp() + $2::float8 * interval '1 s') END, tail_at = NULL

-- name: app_pace_delete
DELETE FROM hookline.app_pace WHERE app_no = $1

-- name: event_type_save
INSERT INTO hookline.event_type (org_id, name, description, archived, deprecated, schemas, feature_flags, group_name, policy,
                                 created_at, updated_at, validated)
VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7::text[], $8, $9::jsonb, $10, $11, $12)
ON CONFLICT (org_id, name) DO UPDATE
SET description = excluded.description, archived = excluded.archived, deprecated = excluded.deprecated,
    schemas = excluded.schemas, feature_flags = excluded.feature_flags, group_name = excluded.group_name,
    policy = excluded.policy, updated_at = excluded.updated_at, validated = excluded.validated
WHERE $13::boolean OR event_type.updated_at = $14::timestamptz
RETURNING *

-- name: event_type
SELECT * FROM hookline.event_type WHERE org_id = $1 AND name = $2

-- name: event_types
SELECT * FROM hookline.event_type
WHERE org_id = $1 AND name > $2 AND ($4::boolean OR NOT archived) ORDER BY name LIMIT $3

-- name: event_types_back
SELECT * FROM hookline.event_type
WHERE org_id = $1 AND ($2 = '' OR name < $2) AND ($4::boolean OR NOT archived) ORDER BY name DESC LIMIT $3

-- name: event_type_expunge
DELETE FROM hookline.event_type WHERE org_id = $1 AND name = $2 RETURNING name

-- name: endpoint_count
SELECT count(*) FROM (SELECT FROM hookline.endpoint WHERE app_no = $1 AND deleted_at IS NULL LIMIT $2) counted

-- name: endpoint_insert
-- Whoever deletes the application waits, and then finds this endpoint too.
INSERT INTO hookline.endpoint (id, app_no, status, url, uid, description, version, event_types, channels, throttle_rate,
                               concurrency, ordering, on_death, scheme, sealed_url, secrets, headers, metadata, policy)
SELECT $1, a.no, $3, $4, $5, $6, $7, $8::text[], $9::text[], $10, $11, $12, $13, $14, $15, $16, $17, $18::jsonb, $19::jsonb
FROM hookline.application a WHERE a.no = $2 AND a.deleted_at IS NULL
FOR SHARE OF a
RETURNING no

-- name: lane_insert
INSERT INTO hookline.lane (endpoint_no, app_no, status, throttle_rate, concurrency, app_rate)
SELECT $1, a.no, $3, $4, $5, a.throttle_rate FROM hookline.application a WHERE a.no = $2

-- name: lane_lock
SELECT l.*, now() AS now FROM hookline.lane l WHERE endpoint_no = $1 AND status < 3 FOR NO KEY UPDATE

-- name: endpoint_update
UPDATE hookline.endpoint
SET url = $2, uid = $3, description = $4, version = $5, event_types = $6::text[], channels = $7::text[], throttle_rate = $8,
    concurrency = $9, ordering = $10, on_death = $11, scheme = $12, sealed_url = $13, secrets = $14, headers = $15,
    metadata = $16::jsonb, policy = $17::jsonb,
    revision = revision + 1, updated_at = now()
WHERE no = $1

-- name: lane_limits
UPDATE hookline.lane SET throttle_rate = $2, concurrency = $3, revision = revision + 1 WHERE endpoint_no = $1

-- name: endpoint_status
UPDATE hookline.endpoint SET status = $2, status_reason = $3, revision = revision + 1, updated_at = now()
WHERE no = $1 AND deleted_at IS NULL

-- name: lane_status
-- One that is active again begins without the failures of before, and an open circuit is probed at once.
UPDATE hookline.lane
SET status = $2::smallint, revision = revision + 1,
    failures = CASE WHEN $2 = 0 THEN 0 ELSE failures END,
    failing_since = CASE WHEN $2 = 0 THEN NULL ELSE failing_since END,
    probe_at = CASE WHEN $2 = 0 AND circuit = 1 THEN now() ELSE probe_at END
WHERE endpoint_no = $1

-- name: held_renew
UPDATE hookline.delivery
SET expires_at = now() + make_interval(secs => coalesce((policy ->> 'max_age')::float8, $2::float8))
WHERE endpoint_no = $1 AND state < 2

-- name: lane_wake
-- A token for all that waits in the lane, if anything does.
INSERT INTO hookline.wake (app_no, endpoint_no, at, floor)
SELECT d.app_no, $1, greatest(now(), d.due_at), d.due_at
FROM (SELECT app_no, due_at FROM hookline.delivery WHERE endpoint_no = $1 AND state < 2 ORDER BY due_at LIMIT 1) d

-- name: announce
SELECT hookline.announce()

-- name: endpoints_delete
UPDATE hookline.endpoint SET status = 3, deleted_at = now(), updated_at = now(), revision = revision + 1
WHERE no = ANY ($1::bigint[]) AND deleted_at IS NULL

-- name: lanes_delete_mark
UPDATE hookline.lane SET status = 3, revision = revision + 1 WHERE endpoint_no = ANY ($1::bigint[])

-- name: endpoint_by_no
SELECT e.*, a.id AS app_id, a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
WHERE e.no = $1 AND e.deleted_at IS NULL

-- name: endpoint_locked
-- With its lane locked before: `reseal` must not seal anew what is being changed.
SELECT e.*, a.id AS app_id, a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
WHERE e.no = $1 AND e.deleted_at IS NULL
FOR NO KEY UPDATE OF e

-- name: endpoint_by_ref
SELECT e.*, a.id AS app_id, a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
WHERE e.app_no = $1 AND e.id = $2 AND e.deleted_at IS NULL

-- name: endpoint_by_uid
SELECT e.*, a.id AS app_id, a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
WHERE e.app_no = $1 AND e.uid = $2 AND e.deleted_at IS NULL

-- name: endpoint_by_id
SELECT e.*, a.id AS app_id, a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
WHERE e.id = $2 AND a.org_id = $1 AND e.deleted_at IS NULL

-- name: endpoints
SELECT e.*, a.id AS app_id, a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
WHERE e.app_no = $1 AND e.id > $2 AND e.deleted_at IS NULL ORDER BY e.id LIMIT $3

-- name: endpoints_back
SELECT e.*, a.id AS app_id, a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
WHERE e.app_no = $1 AND ($2 = '' OR e.id < $2) AND e.deleted_at IS NULL ORDER BY e.id DESC LIMIT $3

-- name: endpoints_for
SELECT e.*, a.id AS app_id, a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no
WHERE e.no = ANY ($1::bigint[])
