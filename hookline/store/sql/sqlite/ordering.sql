-- Ordering: make the first delivery of a queue available. `rules/ordering.py` explains who may do this and when, and
-- why no delivery is forgotten.

-- name: promote
UPDATE delivery SET state = 0
 WHERE id = (SELECT q.id FROM delivery q WHERE q.endpoint_no = :no AND q.ordering_key = :key AND q.state = 6
              ORDER BY q.message_seq, q.id LIMIT 1)
   AND NOT EXISTS (SELECT 1 FROM delivery a WHERE a.endpoint_no = :no AND a.ordering_key = :key AND a.state < 3)
   AND NOT EXISTS (SELECT 1 FROM dead_letter b JOIN endpoint e ON e.no = b.endpoint_no
                    WHERE b.endpoint_no = :no AND b.ordering_key = :key AND b.resolved_at IS NULL
                      AND b.message_seq < delivery.message_seq AND e.on_death = 'block');

-- name: queues_of
-- The queues of these deliveries.
SELECT endpoint_no, ordering_key FROM delivery WHERE id IN (SELECT value FROM json_each(?)) AND ordering_key IS NOT NULL;

-- name: queues
-- List each queue that is not empty, with the `message_seq` of its first delivery. Each step of the recursion finds one
-- queue by the index: the one with the next key of the lane, or else the first one of the next lane. Two subqueries do
-- this. With a single comparison `(endpoint_no, ordering_key) > (...)`, whose values come from a query, SQLite would
-- use only the first column of the index.
WITH RECURSIVE queue (endpoint_no, ordering_key) AS (
    SELECT * FROM (SELECT endpoint_no, ordering_key FROM delivery WHERE state = 6 AND endpoint_no > 0
                    ORDER BY endpoint_no, ordering_key LIMIT 1)
    UNION ALL
    SELECT n.endpoint_no, n.ordering_key
      FROM queue w JOIN delivery n ON n.id = (
           SELECT coalesce(
                  (SELECT d.id FROM delivery d
                    WHERE d.state = 6 AND d.endpoint_no = w.endpoint_no AND d.ordering_key > w.ordering_key
                    ORDER BY d.ordering_key LIMIT 1),
                  (SELECT d.id FROM delivery d WHERE d.state = 6 AND d.endpoint_no > w.endpoint_no
                    ORDER BY d.endpoint_no, d.ordering_key LIMIT 1)))
)
SELECT w.endpoint_no, w.ordering_key,
       (SELECT d.message_seq FROM delivery d WHERE d.endpoint_no = w.endpoint_no AND d.ordering_key = w.ordering_key
         AND d.state = 6 ORDER BY d.message_seq LIMIT 1) AS message_seq
  FROM queue w;

-- name: queue_will_move
-- Whether the queue needs no wake token now. It needs none in three cases: it has an active delivery, whose end inserts
-- a wake token; its lane is deleted, so that the sweep turns its deliveries into dead letters; or a dead letter blocks
-- it on purpose. In all other cases, a queue that no wake token names is stuck: no claim would promote its first
-- delivery.
SELECT EXISTS (SELECT 1 FROM delivery a WHERE a.endpoint_no = :no AND a.ordering_key = :key AND a.state < 3)
    OR NOT EXISTS (SELECT 1 FROM lane l WHERE l.endpoint_no = :no AND l.status < 3)
    OR EXISTS (SELECT 1 FROM dead_letter b JOIN endpoint e ON e.no = b.endpoint_no
                WHERE b.endpoint_no = :no AND b.ordering_key = :key AND b.resolved_at IS NULL
                  AND b.message_seq < :seq AND e.on_death = 'block');

-- name: queues_named
-- The queues that the wake tokens of a lane name.
SELECT keys FROM wake WHERE endpoint_no = ? AND keys IS NOT NULL;
