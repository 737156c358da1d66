-- Tasks: statements of PostgreSQL only.

-- name: task_lock_timeout
SELECT set_config('lock_timeout', :longest, true)

-- name: task_insert
INSERT INTO hookline.task (id, org_id, app_no, endpoint_no, kind, status, params, total, created_at, updated_at)
SELECT :id::text, :org_id::text, :app_no::bigint, :endpoint_no::bigint, :kind::text, 'running', :params::jsonb, :total::bigint,
       now(), now()
WHERE (SELECT count(*) FROM hookline.task WHERE status = 'running' AND app_no = :app_no) < :max_rows::integer
RETURNING id

-- name: tasks
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
-- include: task_shown
WHERE t.org_id = :org_id::text AND (:app_no::bigint IS NULL OR t.app_no = :app_no)
  AND (:kinds::text[] IS NULL OR t.kind = ANY (:kinds)) AND (:statuses::text[] IS NULL OR t.status = ANY (:statuses))
  AND t.id > :iterator
ORDER BY t.id LIMIT :limit

-- name: tasks_back
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
-- include: task_shown
WHERE t.org_id = :org_id::text AND (:app_no::bigint IS NULL OR t.app_no = :app_no)
  AND (:kinds::text[] IS NULL OR t.kind = ANY (:kinds)) AND (:statuses::text[] IS NULL OR t.status = ANY (:statuses))
  AND t.id < :iterator
ORDER BY t.id DESC LIMIT :limit

-- name: tasks_open
SELECT id FROM hookline.task WHERE status = 'running' ORDER BY updated_at, id LIMIT :limit::integer

-- name: task_progress
UPDATE hookline.task
SET done = done + :done::bigint, skipped = skipped + :skipped::bigint, position = :position::text, status = :status::text,
    updated_at = now()
WHERE id = :id::text

-- name: dead_in_range
-- Dead letters whose deliveries died in a time range, oldest first. The caller applies the other filters of the task.
WITH l AS MATERIALIZED (
       SELECT * FROM hookline.dead_letter l
       WHERE l.app_no = :app_no::bigint AND (:endpoint_no::bigint IS NULL OR l.endpoint_no = :endpoint_no)
         AND (l.died_at, l.id) > (:died_at::timestamptz, :dead_id::bigint) AND l.died_at < :until::timestamptz
       ORDER BY l.died_at, l.id LIMIT :limit::integer)
SELECT l.id, l.died_at, l.message_at, l.event_type, l.reason, l.resolved_at IS NOT NULL AS resolved,
       EXISTS (SELECT FROM hookline.lane n WHERE n.endpoint_no = l.endpoint_no AND n.status < 2)
       AND EXISTS (SELECT FROM hookline.message m
                   WHERE m.created_at = l.message_at AND m.seq = l.message_seq AND m.payload IS NOT NULL) AS sendable
FROM l ORDER BY l.died_at, l.id
