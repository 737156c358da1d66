-- Record: pause endpoints with many dead letters.

-- name: record_dying
-- Endpoints with more than `most` dead letters in a day. Reads at most `rows_read` dead letters of each endpoint.
SELECT l.endpoint_no FROM hookline.lane l
WHERE l.endpoint_no = ANY (:nos::bigint[]) AND l.status = 0 AND :most::integer < (
  SELECT count(*) FROM (
    SELECT d.reason FROM hookline.dead_letter d
    WHERE d.endpoint_no = l.endpoint_no AND d.died_at > now() - interval '1 day'
    ORDER BY d.died_at DESC LIMIT :rows_read::integer) newest
  WHERE newest.reason NOT IN ('budget_exhausted', 'endpoint_deleted'))
ORDER BY l.endpoint_no

-- name: record_died_since_resume
-- Counts only the dead letters since the endpoint was last resumed or enabled, because earlier dead letters may have
-- caused the last pause.
SELECT count(*) FROM (
  SELECT d.reason FROM hookline.dead_letter d
  WHERE d.endpoint_no = :no AND d.died_at > now() - interval '1 day'
    AND d.died_at > coalesce((
      SELECT max(e.at) FROM hookline.lane_event e
      WHERE e.endpoint_no = :no AND e.kind IN ('endpoint_resumed', 'endpoint_enabled')), now() - interval '1 day')
  ORDER BY d.died_at DESC LIMIT :rows_read::integer) newest
WHERE newest.reason NOT IN ('budget_exhausted', 'endpoint_deleted')
