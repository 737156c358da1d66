-- Tasks: long work in steps. Each step is one transaction: what it did, and how far it came. The lock on the row is the lease.

-- name: task_insert
INSERT INTO hookline.task (id, org_id, app_no, endpoint_no, kind, status, params, total, created_at, updated_at)
SELECT $1::text, $2::text, $3::bigint, $4::bigint, $5::text, 'running', $6::jsonb, $7::bigint, now(), now()
WHERE (SELECT count(*) FROM hookline.task WHERE status = 'running' AND app_no = $3) < $8::integer
RETURNING id

-- name: task
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
FROM hookline.task t JOIN hookline.application a ON a.no = t.app_no LEFT JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.id = $1::text

-- name: task_take
SELECT t.*, a.id AS app_id, e.id AS endpoint_id, now() AS now
FROM hookline.task t JOIN hookline.application a ON a.no = t.app_no LEFT JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.id = $1::text AND t.status = 'running'
FOR UPDATE OF t SKIP LOCKED

-- name: tasks
-- $1 organization, $2 application, $3 kinds, $4 statuses.
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
FROM hookline.task t JOIN hookline.application a ON a.no = t.app_no LEFT JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.org_id = $1::text AND ($2::bigint IS NULL OR t.app_no = $2) AND ($3::text[] IS NULL OR t.kind = ANY ($3))
  AND ($4::text[] IS NULL OR t.status = ANY ($4)) AND ($5::text IS NULL OR t.id < $5)
ORDER BY t.id DESC LIMIT $6::integer

-- name: tasks_back
SELECT t.*, a.id AS app_id, e.id AS endpoint_id
FROM hookline.task t JOIN hookline.application a ON a.no = t.app_no LEFT JOIN hookline.endpoint e ON e.no = t.endpoint_no
WHERE t.org_id = $1::text AND ($2::bigint IS NULL OR t.app_no = $2) AND ($3::text[] IS NULL OR t.kind = ANY ($3))
  AND ($4::text[] IS NULL OR t.status = ANY ($4)) AND ($5::text IS NULL OR t.id > $5)
ORDER BY t.id LIMIT $6::integer

-- name: tasks_open
SELECT id FROM hookline.task WHERE status = 'running' ORDER BY updated_at, id LIMIT $1::integer

-- name: task_end
UPDATE hookline.task SET status = $2::text, error = $3::text, updated_at = now() WHERE id = $1::text AND status = 'running'

-- name: task_progress
UPDATE hookline.task
SET done = done + $2::bigint, skipped = skipped + $3::bigint, position = $4::text, status = $5::text, updated_at = now()
WHERE id = $1::text

-- name: dead_look
-- Every dead letter that a walk comes by, whether it matches or not. $1 application, $2 endpoint, $3 and $4 after this one,
-- $5 died before, $6 most.
WITH l AS MATERIALIZED (
       SELECT * FROM hookline.dead_letter l
       WHERE l.app_no = $1::bigint AND ($2::bigint IS NULL OR l.endpoint_no = $2)
         AND (l.died_at, l.id) > ($3::timestamptz, $4::bigint) AND l.died_at < $5::timestamptz
       ORDER BY l.died_at, l.id LIMIT $6::integer)
SELECT l.id, l.died_at, l.message_at, l.event_type, l.reason, l.resolved_at IS NOT NULL AS resolved,
       EXISTS (SELECT FROM hookline.lane n WHERE n.endpoint_no = l.endpoint_no AND n.status < 2)
       AND EXISTS (SELECT FROM hookline.message m
                   WHERE m.created_at = l.message_at AND m.seq = l.message_seq AND m.payload IS NOT NULL) AS sendable
FROM l ORDER BY l.died_at, l.id

-- name: retire_task
DELETE FROM hookline.task WHERE id = ANY (ARRAY(
  SELECT id FROM hookline.task
  WHERE status <> 'running' AND updated_at < now() - make_interval(days => $1::integer)
  ORDER BY updated_at LIMIT $2::integer))
