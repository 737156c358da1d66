-- Order: the first of a queue gets its turn. See rules/ordering.py for who may do it when, and why nothing is forgotten.

-- name: promote
UPDATE delivery SET state = 0
 WHERE id = (SELECT q.id FROM delivery q WHERE q.endpoint_no = :no AND q.ordering_key = :key AND q.state = 6
              ORDER BY q.message_seq, q.id LIMIT 1)
   AND NOT EXISTS (SELECT 1 FROM delivery a WHERE a.endpoint_no = :no AND a.ordering_key = :key AND a.state < 3)
   AND NOT EXISTS (SELECT 1 FROM dead_letter b JOIN endpoint e ON e.no = b.endpoint_no
                    WHERE b.endpoint_no = :no AND b.ordering_key = :key AND b.resolved_at IS NULL
                      AND b.message_seq < delivery.message_seq AND e.on_death = 'block');

-- name: queues_of
-- The queues that these deliveries stand in.
SELECT endpoint_no, ordering_key FROM delivery WHERE id IN (SELECT value FROM json_each(?)) AND ordering_key IS NOT NULL;

-- name: queues
-- Each queue that has something in it, one seek each, with the first in line. The next key of the lane, or else the first of the
-- next lane: of a pair that comes from a query the index is searched by its first half alone.
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
-- Whether something of it is active, its lane is gone, or a dead letter blocks it.
SELECT EXISTS (SELECT 1 FROM delivery a WHERE a.endpoint_no = :no AND a.ordering_key = :key AND a.state < 3)
    OR NOT EXISTS (SELECT 1 FROM lane l WHERE l.endpoint_no = :no AND l.status < 3)
    OR EXISTS (SELECT 1 FROM dead_letter b JOIN endpoint e ON e.no = b.endpoint_no
                WHERE b.endpoint_no = :no AND b.ordering_key = :key AND b.resolved_at IS NULL
                  AND b.message_seq < :seq AND e.on_death = 'block');

-- name: queues_named
-- Of one lane, by the tokens that it has.
SELECT keys FROM wake WHERE endpoint_no = ? AND keys IS NOT NULL;
