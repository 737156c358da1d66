-- Organizations and applications.

-- name: organization
SELECT * FROM hookline.organization WHERE id = :org_id
