-- Tasks: long work in steps. Each step is one transaction: what it did, and how far it came.

-- name: task_insert
INSERT INTO task (id, org_id, app_no, endpoint_no, kind, status, params, total, created_at, updated_at)
SELECT :id, :org_id, :app_no, :endpoint_no, :kind, 'running', :params, :total, :now, :now
 WHERE (SELECT count(*) FROM task WHERE status = 'running' AND updated_at > 0 AND app_no = :app_no) < :most;

-- name: task
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
  FROM task t JOIN application a ON a.no = t.app_no LEFT JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.id = ?;

-- name: tasks_of_org
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
  FROM task t JOIN application a ON a.no = t.app_no LEFT JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.org_id = :of AND t.id < :iterator
   AND t.kind IN (SELECT value FROM json_each(:kinds)) AND t.status IN (SELECT value FROM json_each(:statuses))
 ORDER BY t.id DESC LIMIT :limit;

-- name: tasks_of_org_back
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
  FROM task t JOIN application a ON a.no = t.app_no LEFT JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.org_id = :of AND t.id > :iterator
   AND t.kind IN (SELECT value FROM json_each(:kinds)) AND t.status IN (SELECT value FROM json_each(:statuses))
 ORDER BY t.id LIMIT :limit;

-- name: tasks_of_app
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
  FROM task t JOIN application a ON a.no = t.app_no LEFT JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.app_no = :of AND t.id < :iterator
   AND t.kind IN (SELECT value FROM json_each(:kinds)) AND t.status IN (SELECT value FROM json_each(:statuses))
 ORDER BY t.id DESC LIMIT :limit;

-- name: tasks_of_app_back
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
  FROM task t JOIN application a ON a.no = t.app_no LEFT JOIN endpoint e ON e.no = t.endpoint_no
 WHERE t.app_no = :of AND t.id > :iterator
   AND t.kind IN (SELECT value FROM json_each(:kinds)) AND t.status IN (SELECT value FROM json_each(:statuses))
 ORDER BY t.id LIMIT :limit;

-- name: tasks_open
SELECT id FROM task WHERE status = 'running' AND updated_at > 0 ORDER BY updated_at, id LIMIT ?;

-- name: task_end
UPDATE task SET status = :status, error = :error, updated_at = :now WHERE id = :id AND status = 'running';

-- name: task_progress
UPDATE task SET done = done + :done, skipped = skipped + :skipped, position = :position, status = :status, updated_at = :now
 WHERE id = :id;

-- name: dead_look_app
-- Every dead letter that a walk comes by, whether it matches or not.
SELECT l.id, l.died_at, l.message_at, l.event_type, l.reason, l.resolved_at IS NOT NULL AS resolved,
       EXISTS (SELECT 1 FROM lane n WHERE n.endpoint_no = l.endpoint_no AND n.status < 2)
       AND EXISTS (SELECT 1 FROM message m WHERE m.seq = l.message_seq AND m.payload IS NOT NULL) AS sendable
  FROM dead_letter l
 WHERE l.app_no = :of AND (l.died_at, l.id) > (:died_at, :id) AND l.died_at < :until
 ORDER BY l.died_at, l.id LIMIT :limit;

-- name: dead_look_endpoint
SELECT l.id, l.died_at, l.message_at, l.event_type, l.reason, l.resolved_at IS NOT NULL AS resolved,
       EXISTS (SELECT 1 FROM lane n WHERE n.endpoint_no = l.endpoint_no AND n.status < 2)
       AND EXISTS (SELECT 1 FROM message m WHERE m.seq = l.message_seq AND m.payload IS NOT NULL) AS sendable
  FROM dead_letter l
 WHERE l.endpoint_no = :of AND (l.died_at, l.id) > (:died_at, :id) AND l.died_at < :until
 ORDER BY l.died_at, l.id LIMIT :limit;

-- name: retire_task
DELETE FROM task WHERE id IN (
    SELECT id FROM task WHERE status <> 'running' AND updated_at < ? ORDER BY updated_at LIMIT ?);
