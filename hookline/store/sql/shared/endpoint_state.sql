-- The state of an endpoint and its lane. Always lock the lane before the endpoint, as `record.sql` does.

-- name: lane_lock
SELECT l.*, now() AS now FROM hookline.lane l WHERE endpoint_no = :no AND status < 3 FOR NO KEY UPDATE

-- name: lane_save
UPDATE hookline.lane
SET status = :status, revision = :revision, circuit = :circuit, epoch = :epoch, failures = :failures,
    failing_since = :failing_since, trips = :trips, opened_at = :opened_at, probe_at = :probe_at, "window" = :window,
    window_at = :window_at, in_flight = :in_flight, waiting_floor = :waiting_floor, tat = :tat, held_until = :held_until,
    pace = :pace, pace_at = :pace_at, pace_top = :pace_top, slowed_at = :slowed_at, turn_at = :turn_at
WHERE endpoint_no = :no

-- name: lane_status
UPDATE hookline.lane
SET status = :status, revision = revision + 1,
    failures = CASE WHEN :active::boolean THEN 0 ELSE failures END,
    failing_since = CASE WHEN :active THEN NULL ELSE failing_since END,
    probe_at = CASE WHEN :active AND circuit = 1 THEN now() ELSE probe_at END
WHERE endpoint_no = :no

-- name: endpoint_status
UPDATE hookline.endpoint SET status = :status, status_reason = :reason, revision = revision + 1, updated_at = now()
WHERE no = :no AND deleted_at IS NULL

-- name: lane_event_add
INSERT INTO hookline.lane_event (endpoint_no, app_no, at, kind, cause, actor, actor_name)
VALUES (:no, :app_no, :at, :kind, :cause, :actor, :actor_name)

-- name: lanes_wake
-- Inserts a wake token for each lane that has waiting deliveries.
INSERT INTO hookline.wake (app_no, endpoint_no, at, floor)
SELECT w.app_no, w.endpoint_no, CASE WHEN w.due_at > now() THEN w.due_at ELSE now() END, w.due_at
FROM (SELECT l.app_no, l.endpoint_no, (SELECT d.due_at FROM hookline.delivery d
                                       WHERE d.endpoint_no = l.endpoint_no AND d.state < 2 ORDER BY d.due_at LIMIT 1) AS due_at
      FROM hookline.lane l WHERE l.endpoint_no = ANY (:nos::bigint[])) w
WHERE w.due_at IS NOT NULL

-- name: lanes_delete_mark
UPDATE hookline.lane SET status = 3, revision = revision + 1 WHERE endpoint_no = ANY (:nos::bigint[])

-- name: endpoints_delete
UPDATE hookline.endpoint SET status = 3, deleted_at = now(), updated_at = now(), revision = revision + 1
WHERE no = ANY (:nos::bigint[]) AND deleted_at IS NULL
