-- Replace encrypted values with the same values encrypted by another key. If a column no longer contains the old value,
-- the statement does not write to it. The head of a value is its first five bytes, which name the key that encrypted
-- it.

-- name: reseal_endpoint_secrets
UPDATE endpoint SET secrets = :new WHERE id = :row AND secrets = :old RETURNING 1;

-- name: reseal_endpoint_headers
UPDATE endpoint SET headers = :new WHERE id = :row AND headers = :old RETURNING 1;

-- name: reseal_endpoint_sealed_url
UPDATE endpoint SET sealed_url = :new WHERE id = :row AND sealed_url = :old RETURNING 1;

-- name: reseal_answer_response
-- The conditions on the head and on the key are written as in the index `answer_key`, so that SQLite uses this index.
UPDATE answer SET response = :new
 WHERE substr(response, 1, 5) = substr(:old, 1, 5) AND CAST(lower(hex(key)) AS text) = :row AND response = :old RETURNING 1;
