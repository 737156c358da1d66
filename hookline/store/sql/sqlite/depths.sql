-- Depths: current numbers of open deliveries, lanes, unresolved dead letters and firing alerts.

-- name: depths_waiting
SELECT count(*), coalesce(sum(state), 0) FROM delivery WHERE state < 2 AND expires_at > 0;

-- name: depths_open
SELECT (SELECT count(*) FROM delivery WHERE state = 2 AND lease_until > 0) AS delivering,
       (SELECT count(*) FROM delivery WHERE state = 6 AND expires_at > 0) AS queued;

-- name: depths_lanes
-- Waiting deliveries by lane, and whether the lane is held back: see `model.Depths`. A lane whose endpoint is deleted
-- counts as held back.
SELECT n.endpoint_no IS NULL OR n.status > 0 OR n.circuit IN (1, 2) OR coalesce(n.held_until > :now, 0) AS back,
       w.waiting, w.due, w.first_due
  FROM (SELECT endpoint_no, count(*) AS waiting, sum(due_at <= :now) AS due, min(due_at) AS first_due
          FROM delivery WHERE state < 2 AND endpoint_no > 0 GROUP BY endpoint_no) w
  LEFT JOIN lane n ON n.endpoint_no = w.endpoint_no;

-- name: depths_circuits
SELECT circuit, sum(status = 0) AS number, sum(status = 1) AS paused, sum(status = 2) AS disabled,
       sum(coalesce(held_until > :now, 0)) AS held_lanes, sum(pace IS NOT NULL) AS slowed
  FROM lane WHERE status < 3 GROUP BY circuit;

-- name: depths_dead
SELECT reason, count(*) FROM dead_letter WHERE resolved_at IS NULL AND died_at > 0 GROUP BY reason;

-- name: depths_alerts
SELECT name, severity, count(*) FROM alert WHERE resolved_at IS NULL AND name > '' GROUP BY name, severity;
