-- Names of applications and endpoints by id.

-- name: application_names
SELECT id, name FROM hookline.application WHERE id = ANY (:ids::text[]) AND org_id = :org_id AND deleted_at IS NULL

-- name: application_words
SELECT id, name, uid FROM hookline.application
WHERE org_id = :org_id AND id > :iterator AND deleted_at IS NULL ORDER BY id LIMIT :looked

-- name: applications_by_id
SELECT * FROM hookline.application WHERE id = ANY (:ids::text[]) AND org_id = :org_id AND deleted_at IS NULL ORDER BY id

-- name: endpoint_names
SELECT e.id, e.url, e.description, e.deleted_at IS NOT NULL AS deleted, a.id AS app_id, a.name AS app_name, a.org_id
FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no WHERE e.id = ANY (:ids::text[])
