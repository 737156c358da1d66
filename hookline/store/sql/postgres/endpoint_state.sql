-- The state of an endpoint and its lane: statements of PostgreSQL only.

-- name: announce
SELECT hookline.announce()

-- name: held_renew_all
-- Runs when an endpoint stops being paused. Restarts the time budgets of its waiting and queued deliveries.
WITH waiting AS (
  UPDATE hookline.delivery
  SET expires_at = now() + make_interval(secs => coalesce((policy ->> 'max_age')::float8, :max_age::float8))
  WHERE endpoint_no = :no::bigint AND state < 2)
UPDATE hookline.delivery
SET expires_at = now() + make_interval(secs => coalesce((policy ->> 'max_age')::float8, :max_age))
WHERE endpoint_no = :no AND state = 6

-- name: unblock
-- The endpoint's dead letters no longer block its queues: inserts wake tokens for the queues that they blocked. Runs
-- under the lane's lock.
INSERT INTO hookline.wake (app_no, endpoint_no, at, floor, keys)
SELECT min(app_no), :no, now(), now(), string_agg(DISTINCT to_json(ordering_key)::text, ',')
FROM hookline.dead_letter WHERE endpoint_no = :no::bigint AND ordering_key IS NOT NULL AND resolved_at IS NULL
HAVING count(*) > 0
