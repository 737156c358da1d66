-- Replace encrypted values (:old) with the same values encrypted by another key (:new). If a column no longer contains
-- :old, because another transaction changed it, the statement does not write to it.

-- name: reseal_endpoint_secrets
-- Rows that another transaction has locked are skipped. This transaction never waits while it holds locks, so it
-- cannot deadlock.
WITH held AS MATERIALIZED (
    SELECT e.no, given.new
    FROM unnest(:row::text[], :old::bytea[], :new::bytea[]) AS given (id, old, new)
    JOIN hookline.endpoint e ON e.id = given.id AND e.secrets = given.old
    FOR NO KEY UPDATE OF e SKIP LOCKED),
done AS (UPDATE hookline.endpoint e SET secrets = held.new FROM held WHERE e.no = held.no RETURNING 1)
SELECT 1 FROM done

-- name: reseal_endpoint_headers
WITH held AS MATERIALIZED (
    SELECT e.no, given.new
    FROM unnest(:row::text[], :old::bytea[], :new::bytea[]) AS given (id, old, new)
    JOIN hookline.endpoint e ON e.id = given.id AND e.headers = given.old
    FOR NO KEY UPDATE OF e SKIP LOCKED),
done AS (UPDATE hookline.endpoint e SET headers = held.new FROM held WHERE e.no = held.no RETURNING 1)
SELECT 1 FROM done

-- name: reseal_endpoint_sealed_url
WITH held AS MATERIALIZED (
    SELECT e.no, given.new
    FROM unnest(:row::text[], :old::bytea[], :new::bytea[]) AS given (id, old, new)
    JOIN hookline.endpoint e ON e.id = given.id AND e.sealed_url = given.old
    FOR NO KEY UPDATE OF e SKIP LOCKED),
done AS (UPDATE hookline.endpoint e SET sealed_url = held.new FROM held WHERE e.no = held.no RETURNING 1)
SELECT 1 FROM done

-- name: reseal_answer_response
WITH held AS MATERIALIZED (
    SELECT a.key, given.new
    FROM unnest(:row::text[], :old::bytea[], :new::bytea[]) AS given (id, old, new)
    JOIN hookline.answer a ON a.key = decode(given.id, 'hex') AND a.response = given.old
    FOR NO KEY UPDATE OF a SKIP LOCKED),
done AS (UPDATE hookline.answer a SET response = held.new FROM held WHERE a.key = held.key RETURNING 1)
SELECT 1 FROM done
