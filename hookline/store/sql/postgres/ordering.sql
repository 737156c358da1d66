-- Ordering: make the first delivery of a queue available. `rules/ordering.py` explains who may do this and when, and
-- why no delivery is forgotten.

-- name: promote
-- Promotes the first delivery of each queue (makes it pending), unless a delivery of the queue is active or a dead
-- letter blocks the queue. $1 the endpoint and $2 the ordering key of each queue.
-- The claim has locked the lanes and consumed the wake tokens that name the queues. A promoted delivery keeps its due
-- time, which may be long ago. `floor` is the earliest due time of the promoted deliveries of a lane. The claim must
-- search the lane for deliveries from that time on. The update waits for a row that the sweep has locked: afterwards
-- that row is dead and the sweep has inserted a wake token, or the row is still queued.
-- Each queue is looked up by a subquery with a LIMIT. NOT EXISTS would become a join, and if the statistics show few
-- active deliveries, the planner would compare each queue with all active deliveries.
WITH q AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::text[]) AS q (endpoint_no, ordering_key)),
     head AS MATERIALIZED (
       SELECT h.id
       FROM q
       CROSS JOIN LATERAL (
         SELECT d.id, d.message_seq FROM hookline.delivery d
         WHERE d.endpoint_no = q.endpoint_no AND d.ordering_key = q.ordering_key AND d.state = 6
         ORDER BY d.message_seq, d.id LIMIT 1) h
       WHERE (SELECT a.id FROM hookline.delivery a
              WHERE a.endpoint_no = q.endpoint_no AND a.ordering_key = q.ordering_key AND a.state < 3 LIMIT 1) IS NULL
         AND (SELECT b.id FROM hookline.dead_letter b JOIN hookline.endpoint e ON e.no = b.endpoint_no AND e.on_death = 'block'
              WHERE b.endpoint_no = q.endpoint_no AND b.ordering_key = q.ordering_key AND b.resolved_at IS NULL
                AND b.message_seq < h.message_seq LIMIT 1) IS NULL),
     turned AS (
       UPDATE hookline.delivery SET state = 0 WHERE id = ANY (ARRAY(SELECT id FROM head)) AND state + 0 = 6
       RETURNING endpoint_no, due_at)
SELECT endpoint_no, min(due_at) AS floor FROM turned GROUP BY endpoint_no
