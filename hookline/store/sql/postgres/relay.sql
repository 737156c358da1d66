-- Relay: outbox rows become messages. Rows are selected by state and never by a cursor, because a cursor would skip
-- rows that commit late.

-- name: relay_guard
-- A row is ordered if it has an ordering key, or if its application has an endpoint that receives everything in order.
-- Only the relay that holds this lock relays ordered rows, because two relays at once would change their order.
SELECT pg_try_advisory_xact_lock(1214542, 1)

-- part: application
-- Finds the application of the row `o` by id or uid. If the row names no organization, a uid is found only if there is
-- exactly one organization. $1 is the id of the management organization, which Hookline creates for itself: its
-- applications deliver operational webhooks and alerts. The management organization is not counted, and its
-- applications are found only if the row names that organization. The search by id has no other condition in its
-- WHERE, so that the planner uses the index on ids.
coalesce(
         (SELECT CASE WHEN a.deleted_at IS NULL AND (a.org_id = o.org_id OR o.org_id IS NULL AND a.org_id <> $1::text)
                      THEN a.no END
          FROM hookline.application a WHERE a.id = o.app),
         (SELECT a.no FROM hookline.application a
          WHERE a.uid = o.app AND a.deleted_at IS NULL AND a.org_id = coalesce(o.org_id, (
            SELECT max(s.id) FROM (SELECT id FROM hookline.organization WHERE id <> $1::text LIMIT 2) s
            HAVING count(*) = 1)))) AS app_no

-- part: in_no_queue
-- The row is not ordered: it has no ordering key, and its application has no endpoint that receives everything in
-- order.
o.ordering_key IS NULL AND o.app NOT IN (
         SELECT named.app FROM hookline.endpoint e
         JOIN hookline.application a ON a.no = e.app_no
         CROSS JOIN LATERAL (VALUES (a.id), (a.uid)) AS named (app)
         WHERE e.ordering = 'fifo' AND e.deleted_at IS NULL AND named.app IS NOT NULL)

-- part: relay_pick
-- $2 whether to include ordered rows, $3 the lowest id, $4 maximum number of rows.
SELECT o.* FROM hookline.outbox o
WHERE o.error IS NULL AND o.id >= $3::bigint AND ($2::boolean OR (
         -- include: in_no_queue
       ))
ORDER BY o.id LIMIT $4::integer

-- part: relay_read
-- $5 bytes of payloads to read: the last row read is the one that reaches this total. $6 maximum bytes of one payload:
-- a larger payload is returned as NULL. The driver cannot read instants in the far past and future, so they are
-- replaced with instants that the checks refuse.
     sized AS (
       SELECT p.*, octet_length(p.payload)::bigint AS size,
              sum(octet_length(p.payload)) OVER (ORDER BY p.id) - octet_length(p.payload) AS before
       FROM picked p)
SELECT o.id, o.org_id, o.app, o.event_type, CASE WHEN o.size <= $6::bigint THEN o.payload END AS payload, o.size, o.event_id,
       o.channels, o.tags, o.ordering_key,
       CASE WHEN o.deliver_at < timestamptz '2000-01-01 00:00+00' THEN timestamptz '1999-12-31 00:00+00'
            WHEN o.deliver_at > timestamptz '3000-01-01 00:00+00' THEN timestamptz '3000-01-02 00:00+00'
            ELSE o.deliver_at END AS deliver_at,
       o.policy, o.trace, o.source,
       -- A time from the future counts as now.
       extract(epoch FROM now() - least(now(), greatest(o.created_at, timestamptz '2000-01-01 00:00+00')))::float8 AS age,
       -- include: application
FROM sized o
WHERE o.before < $5::bigint
ORDER BY o.id

-- name: relay_find
WITH picked AS MATERIALIZED (
       -- include: relay_pick
     ),
     -- include: relay_read

-- name: relay_rows
WITH picked AS MATERIALIZED (
       -- include: relay_pick
       FOR UPDATE OF o SKIP LOCKED),
     -- include: relay_read

-- name: relay_move
-- Deletes rows that `relay_find` found and that the relay has checked, and turns them into messages. Handles
-- ordered rows only if it gets the advisory lock (see `relay_guard`), which it tries to take before it locks the rows.
-- If the snapshot still shows a row that another relay has deleted, this statement skips the row when it tries to lock
-- it. $12 the rows' numbers, $13 the deployment's max age, $14 the messages' ages, $15 the endpoints of a worker's offer,
-- $16 claim token, $17 lease in seconds.
WITH settings AS (SELECT $13::float8 AS max_age, $14::jsonb AS ages, $15::bigint[] AS endpoints, $16::bigint AS claim,
                         $17::float8 AS lease),
     -- include: offered
     u AS MATERIALIZED (
       SELECT u.*
       FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[],
                   $9::timestamptz[], $10::text[], $11::text[], $12::bigint[]) WITH ORDINALITY
            AS u (id, app_no, event_type, payload, event_id, channels, tags, ordering_key, deliver_at, policy, trace, row_id, ord)
       -- Not a join: the planner cannot estimate these few rows and would read all applications.
       WHERE (SELECT a.deleted_at IS NULL FROM hookline.application a WHERE a.no = u.app_no)),
     guard AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(1214542, 1) AS held),
     mine AS MATERIALIZED (
       SELECT o.id FROM hookline.outbox o
       WHERE o.id = ANY (ARRAY(SELECT row_id FROM u)) AND o.error IS NULL
         AND ((SELECT held FROM guard) OR (
         -- include: in_no_queue
       ))
       ORDER BY o.id FOR UPDATE OF o SKIP LOCKED),
     gone AS (DELETE FROM hookline.outbox WHERE id = ANY (ARRAY(SELECT id FROM mine))),
     fresh AS MATERIALIZED (SELECT u.* FROM u JOIN mine ON mine.id = u.row_id),
     -- include: accept
SELECT (SELECT count(*) FROM mine) AS gone, (SELECT count(*) FROM msg) AS relayed,
       (SELECT hookline.announce() WHERE EXISTS (SELECT FROM d WHERE state <> 2)), now() AS created_at,
       -- include: leased

-- name: relay_delete
DELETE FROM hookline.outbox WHERE id = ANY ($1::bigint[])

-- name: relay_set_aside
UPDATE hookline.outbox o SET error = r.error, set_aside_at = now()
FROM unnest($1::bigint[], $2::text[]) AS r (id, error) WHERE o.id = r.id AND o.error IS NULL
RETURNING o.id

-- ── rows of other databases ──

-- name: relay_applications
SELECT o.org_id, o.app,
       -- include: application
FROM unnest($2::text[], $3::text[]) AS o (org_id, app)

-- name: relay_keep_aside
-- Inserts nothing for a row that was copied before and is still in the outbox: it is set aside or waits for its retry.
INSERT INTO hookline.outbox (org_id, app, event_type, payload, event_id, channels, tags, ordering_key, deliver_at, policy, trace,
                             error, source, set_aside_at)
SELECT r.org_id, r.app, r.event_type, r.payload, r.event_id, r.channels::text[], r.tags::text[], r.ordering_key, r.deliver_at,
       r.policy::jsonb, r.trace, r.error, $13::text, now()
FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[], $9::timestamptz[],
            $10::text[], $11::text[], $12::text[]) WITH ORDINALITY
     AS r (org_id, app, event_type, payload, event_id, channels, tags, ordering_key, deliver_at, policy, trace, error, ord)
WHERE NOT EXISTS (
  SELECT FROM hookline.outbox o
  WHERE o.source = $13::text AND o.event_id = r.event_id AND o.app = r.app AND o.org_id IS NOT DISTINCT FROM r.org_id)
ORDER BY r.ord
RETURNING id

-- name: relay_place
SELECT row_id, row_uid FROM hookline.outbox_place WHERE source = $1::text

-- name: relay_place_first
INSERT INTO hookline.outbox_place (source, row_id, row_uid) VALUES ($1::text, $2::bigint, $3::text)
ON CONFLICT DO NOTHING
RETURNING true

-- name: relay_place_move
UPDATE hookline.outbox_place SET row_id = $2::bigint, row_uid = $3::text, at = now()
WHERE source = $1::text AND row_id = $4::bigint AND row_uid = $5::text
RETURNING true

-- ── rows that were set aside ──

-- name: outbox
SELECT (SELECT count(*) FROM (SELECT FROM hookline.outbox WHERE error IS NULL LIMIT :max_rows::integer) w) AS waiting,
       (SELECT greatest(created_at, timestamptz '2000-01-01 00:00+00') FROM hookline.outbox WHERE error IS NULL
        ORDER BY id LIMIT 1) AS oldest,
       (SELECT count(*) FROM (SELECT FROM hookline.outbox WHERE error IS NOT NULL LIMIT :max_rows::integer) a) AS set_aside

-- part: stands_aside
SELECT id, org_id, app, event_type, event_id, payload, error, source, set_aside_at,
       least(greatest(created_at, timestamptz '2000-01-01 00:00+00'), timestamptz '3000-01-01 00:00+00') AS created_at

-- name: set_aside
-- include: stands_aside
FROM hookline.outbox WHERE error IS NOT NULL AND id > :iterator::bigint ORDER BY id LIMIT :limit::integer

-- name: set_aside_back
-- include: stands_aside
FROM hookline.outbox WHERE error IS NOT NULL AND id < :iterator::bigint ORDER BY id DESC LIMIT :limit::integer
