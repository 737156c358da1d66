-- Endpoints and their lanes. Always lock the lane before the endpoint, as the statements of record.sql do.

-- name: endpoint_count
SELECT count(*) FROM (SELECT 1 FROM hookline.endpoint WHERE app_no = :app_no AND deleted_at IS NULL LIMIT :max_rows) counted

-- name: endpoint_insert
-- Locks the application's row, so that a concurrent deletion of the application waits and then deletes this endpoint
-- too. Returns no row if the uid is taken, or if the application was deleted.
INSERT INTO hookline.endpoint (id, app_no, status, url, sealed_url, uid, description, version, event_types, channels,
                               throttle_rate, concurrency, ordering, on_death, scheme, secrets, headers, metadata, policy,
                               created_at, updated_at)
SELECT :id, a.no, :status, :url, :sealed_url, :uid, :description, :version, :event_types::text[], :channels::text[],
       :throttle_rate, :concurrency, :ordering, :on_death, :scheme, :secrets, :headers, :metadata::jsonb, :policy::jsonb,
       now(), now()
FROM hookline.application a WHERE a.no = :app_no AND a.deleted_at IS NULL FOR SHARE OF a
ON CONFLICT DO NOTHING
RETURNING no

-- name: lane_insert
INSERT INTO hookline.lane (endpoint_no, app_no, status, throttle_rate, concurrency, app_rate)
SELECT :no, a.no, :status, :throttle_rate, :concurrency, a.throttle_rate FROM hookline.application a WHERE a.no = :app_no

-- name: endpoint_update
-- Returns no row if the uid is taken.
UPDATE hookline.endpoint
SET url = :url, sealed_url = :sealed_url, uid = :uid, description = :description, version = :version,
    event_types = :event_types::text[], channels = :channels::text[], throttle_rate = :throttle_rate,
    concurrency = :concurrency, ordering = :ordering, on_death = :on_death, scheme = :scheme, secrets = :secrets,
    headers = :headers, metadata = :metadata::jsonb, policy = :policy::jsonb, revision = revision + 1, updated_at = now()
WHERE no = :no
  AND NOT EXISTS (SELECT 1 FROM hookline.endpoint o
                  WHERE o.app_no = endpoint.app_no AND o.uid = :uid AND o.no <> :no AND o.deleted_at IS NULL)
RETURNING no

-- name: lane_limits
UPDATE hookline.lane SET throttle_rate = :throttle_rate, concurrency = :concurrency, revision = revision + 1
WHERE endpoint_no = :no

-- part: endpoint_shown
SELECT e.*, a.id AS app_id, a.org_id FROM hookline.endpoint e JOIN hookline.application a ON a.no = e.app_no

-- name: endpoint_by_no
-- include: endpoint_shown
WHERE e.no = :no AND e.deleted_at IS NULL

-- name: endpoint_locked
-- The caller has locked the lane. This locks the endpoint too, so that `reseal` skips it while it is being changed.
-- include: endpoint_shown
WHERE e.no = :no AND e.deleted_at IS NULL FOR NO KEY UPDATE OF e

-- name: endpoint_by_ref
-- include: endpoint_shown
WHERE e.app_no = :app_no AND e.id = :ref AND e.deleted_at IS NULL

-- name: endpoint_by_uid
-- include: endpoint_shown
WHERE e.app_no = :app_no AND e.uid = :ref AND e.deleted_at IS NULL

-- name: endpoint_by_id
-- include: endpoint_shown
WHERE e.id = :endpoint_id AND a.org_id = :org_id AND e.deleted_at IS NULL

-- name: endpoints
-- include: endpoint_shown
WHERE e.app_no = :app_no AND e.id > :iterator AND e.deleted_at IS NULL ORDER BY e.id LIMIT :limit

-- name: endpoints_back
-- include: endpoint_shown
WHERE e.app_no = :app_no AND e.id < :iterator AND e.deleted_at IS NULL ORDER BY e.id DESC LIMIT :limit

-- name: endpoints_for
-- include: endpoint_shown
WHERE e.no = ANY (:nos::bigint[])

-- name: endpoints_sample
-- The oldest and the newest endpoints. Soon after an endpoint was deleted, it has no lane any more.
-- include: endpoint_shown
WHERE e.deleted_at IS NULL AND e.no IN (
  SELECT endpoint_no FROM (SELECT endpoint_no FROM hookline.lane WHERE status < 3 AND endpoint_no > 0
                           ORDER BY endpoint_no LIMIT :limit) o
  UNION
  SELECT endpoint_no FROM (SELECT endpoint_no FROM hookline.lane WHERE status < 3 AND endpoint_no > 0
                           ORDER BY endpoint_no DESC LIMIT :limit) n)
