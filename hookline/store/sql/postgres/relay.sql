-- Relay: outbox rows become messages, by state and never by a cursor: a late commit would be skipped.

-- name: relay_guard
-- Whoever has it relays the rows with an ordering key: two relays would put them out of order.
SELECT pg_try_advisory_xact_lock(1214542, 1)

-- name: relay_rows
-- The application by id or uid; a uid needs its organization, unless there is only one. $3 is the management organization:
-- it is nobody's, and does not count.
SELECT o.id, o.org_id, o.app, o.event_type, o.payload, o.event_id, o.channels, o.tags, o.ordering_key, o.deliver_at, o.policy,
       coalesce(
         (SELECT a.no FROM hookline.application a
          WHERE a.id = o.app AND a.deleted_at IS NULL AND (o.org_id IS NULL OR a.org_id = o.org_id)),
         (SELECT a.no FROM hookline.application a
          WHERE a.uid = o.app AND a.deleted_at IS NULL AND a.org_id = coalesce(o.org_id, (
            SELECT max(s.id) FROM (SELECT id FROM hookline.organization WHERE id <> $3::text LIMIT 2) s
            HAVING count(*) = 1)))) AS app_no
FROM hookline.outbox o
WHERE o.error IS NULL AND (o.ordering_key IS NULL OR $2::boolean)
ORDER BY o.id LIMIT $1::integer
FOR UPDATE OF o SKIP LOCKED

-- name: relay_delete
DELETE FROM hookline.outbox WHERE id = ANY ($1::bigint[])

-- name: relay_set_aside
UPDATE hookline.outbox o SET error = r.error FROM unnest($1::bigint[], $2::text[]) AS r (id, error) WHERE o.id = r.id
