-- Tasks: statements of SQLite only. A line that ends in `-- if :name` is removed if that value is None.

-- name: task_lock_timeout
-- Does nothing: SQLite has only one writer, so a step never waits for a row lock.
SELECT 1 WHERE FALSE;

-- name: task_insert
INSERT INTO task (id, org_id, app_no, endpoint_no, kind, status, params, total, created_at, updated_at)
SELECT :id, :org_id, :app_no, :endpoint_no, :kind, 'running', :params, :total, :now, :now
 WHERE (SELECT count(*) FROM task WHERE status = 'running' AND updated_at > 0 AND app_no = :app_no) < :max_rows
RETURNING id;

-- part: tasks_wanted
   AND t.org_id = :org_id -- if :whole_org
   AND t.app_no = :app_no -- if :app_no
   AND t.kind IN (SELECT value FROM json_each(:kinds)) -- if :kinds
   AND t.status IN (SELECT value FROM json_each(:statuses)) -- if :statuses

-- name: tasks
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
-- include: task_shown
 WHERE t.id > :iterator
-- include: tasks_wanted
 ORDER BY t.id LIMIT :limit;

-- name: tasks_back
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
-- include: task_shown
 WHERE t.id < :iterator
-- include: tasks_wanted
 ORDER BY t.id DESC LIMIT :limit;

-- name: tasks_open
SELECT id FROM task WHERE status = 'running' AND updated_at > 0 ORDER BY updated_at, id LIMIT :limit;

-- name: task_progress
-- Each step sets a later `updated_at` than the step before, even if the clock stands still, so that tasks take turns.
UPDATE task
   SET done = done + :done, skipped = skipped + :skipped, position = :position, status = :status,
       updated_at = max(:now, updated_at + 1)
 WHERE id = :id;

-- name: dead_in_range
-- Dead letters whose deliveries died in a time range, oldest first. The caller applies the other filters of the task.
SELECT l.id, l.died_at, l.message_at, l.event_type, l.reason, l.resolved_at IS NOT NULL AS resolved,
       EXISTS (SELECT 1 FROM lane n WHERE n.endpoint_no = l.endpoint_no AND n.status < 2)
       AND EXISTS (SELECT 1 FROM message m WHERE m.seq = l.message_seq AND m.payload IS NOT NULL) AS sendable
  FROM dead_letter l
 WHERE (l.died_at, l.id) > (:died_at, :dead_id) AND l.died_at < :until
   AND l.app_no = :app_no -- if :whole_app
   AND l.endpoint_no = :endpoint_no -- if :endpoint_no
 ORDER BY l.died_at, l.id LIMIT :limit;
