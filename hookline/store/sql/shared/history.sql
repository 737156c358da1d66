-- Messages by id. The bounds on `created_at` let PostgreSQL skip the partitions of other days.

-- name: message_by_id
SELECT m.*, a.id AS app_id FROM hookline.message m JOIN hookline.application a ON a.no = m.app_no
WHERE m.id = :id::text AND m.created_at >= :since::timestamptz AND m.created_at <= :until::timestamptz
  AND (:app_no::bigint IS NULL OR m.app_no = :app_no)
