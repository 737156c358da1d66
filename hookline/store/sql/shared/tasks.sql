-- Tasks: long work in steps. Each step is one transaction, which does a part of the work and stores the progress. The
-- transaction locks the task's row, so that no other worker runs a step of the same task.

-- part: task_shown
FROM hookline.task t JOIN hookline.application a ON a.no = t.app_no LEFT JOIN hookline.endpoint e ON e.no = t.endpoint_no

-- name: task
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
-- include: task_shown
WHERE t.id = :id

-- name: task_take
SELECT t.*, a.id AS app_id, e.id AS endpoint_id, now() AS now
-- include: task_shown
WHERE t.id = :id AND t.status = 'running' FOR UPDATE OF t SKIP LOCKED

-- name: task_end
UPDATE hookline.task SET status = :status, error = :error, updated_at = now() WHERE id = :id AND status = 'running'
