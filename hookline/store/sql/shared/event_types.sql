-- Event types.

-- name: event_type_save
-- Returns no row if another caller has changed the event type since :seen_at, or if the organization does not exist.
INSERT INTO hookline.event_type (org_id, name, description, archived, deprecated, schemas, feature_flags, group_name, policy,
                                 validated, created_at, updated_at)
SELECT o.id, :name, :description, :archived, :deprecated, :schemas::jsonb, :feature_flags::text[], :group_name, :policy::jsonb,
       :validated, :created_at, :updated_at
FROM hookline.organization o WHERE o.id = :org_id
ON CONFLICT (org_id, name) DO UPDATE
SET description = excluded.description, archived = excluded.archived, deprecated = excluded.deprecated,
    schemas = excluded.schemas, feature_flags = excluded.feature_flags, group_name = excluded.group_name,
    policy = excluded.policy, validated = excluded.validated, updated_at = excluded.updated_at
WHERE :whatever::boolean OR event_type.updated_at = :seen_at::timestamptz
RETURNING *

-- name: event_type
SELECT * FROM hookline.event_type WHERE org_id = :org_id AND name = :name

-- name: event_types
SELECT * FROM hookline.event_type
WHERE org_id = :org_id AND name > :iterator AND (:archived::boolean OR NOT archived) ORDER BY name LIMIT :limit

-- name: event_types_back
SELECT * FROM hookline.event_type
WHERE org_id = :org_id AND name < :iterator AND (:archived::boolean OR NOT archived) ORDER BY name DESC LIMIT :limit

-- name: event_type_expunge
DELETE FROM hookline.event_type WHERE org_id = :org_id AND name = :name RETURNING name
