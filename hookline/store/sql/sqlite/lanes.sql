-- Lanes, their wake tokens and their events. Claim, record, sweep and the catalogue use these statements.

-- name: lanes_of
SELECT * FROM lane WHERE endpoint_no IN (SELECT value FROM json_each(?));

-- name: lane_write
UPDATE lane
   SET status = ?, revision = ?, circuit = ?, epoch = ?, failures = ?, failing_since = ?, trips = ?, opened_at = ?,
       probe_at = ?, "window" = ?, window_at = ?, in_flight = ?, waiting_floor = ?, tat = ?, held_until = ?,
       pace = ?, pace_at = ?, pace_top = ?, slowed_at = ?, turn_at = ?
 WHERE endpoint_no = ?;

-- name: wake_lanes
INSERT INTO wake (endpoint_no, at, floor, keys, app_no) VALUES (?1, ?2, ?3, ?4, (SELECT app_no FROM lane WHERE endpoint_no = ?1));

-- name: lane_events_write
INSERT INTO lane_event (endpoint_no, app_no, at, kind, cause, actor, actor_name) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: waiting_lanes
-- The lanes with waiting deliveries, one index lookup each, because SQLite has no loose index scan.
WITH RECURSIVE waiting (endpoint_no) AS (
    SELECT (SELECT endpoint_no FROM delivery WHERE state < 2 AND endpoint_no > 0 ORDER BY endpoint_no LIMIT 1)
    UNION ALL
    SELECT (SELECT d.endpoint_no FROM delivery d
             WHERE d.state < 2 AND d.endpoint_no > w.endpoint_no ORDER BY d.endpoint_no LIMIT 1)
      FROM waiting w WHERE w.endpoint_no IS NOT NULL
)
SELECT w.endpoint_no AS endpoint_no,
       (SELECT due_at FROM delivery d WHERE d.endpoint_no = w.endpoint_no AND d.state < 2
         ORDER BY d.due_at LIMIT 1) AS first_due,
       (SELECT min(at) FROM wake t WHERE t.endpoint_no = w.endpoint_no) AS token_at
  FROM waiting w WHERE w.endpoint_no IS NOT NULL;
