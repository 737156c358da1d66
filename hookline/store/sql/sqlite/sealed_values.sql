-- Encrypted values by key. The head of a value is its first five bytes, which name the key.

-- name: reseal_endpoint_secrets
UPDATE endpoint SET secrets = :new WHERE id = :row AND secrets = :old RETURNING 1;

-- name: reseal_endpoint_headers
UPDATE endpoint SET headers = :new WHERE id = :row AND headers = :old RETURNING 1;

-- name: reseal_endpoint_sealed_url
UPDATE endpoint SET sealed_url = :new WHERE id = :row AND sealed_url = :old RETURNING 1;

-- name: reseal_answer_response
-- This statement must use the index on the head, as `sealed_next` does.
UPDATE answer SET response = :new
 WHERE substr(response, 1, 5) = substr(:old, 1, 5) AND CAST(lower(hex(key)) AS text) = :row AND response = :old RETURNING 1;
