-- Encrypted values by key. A range of heads contains the values of one key, or those between two keys.

-- name: reseal_endpoint_secrets
UPDATE endpoint SET secrets = :new WHERE id = :row AND secrets = :old RETURNING 1;

-- name: reseal_endpoint_headers
UPDATE endpoint SET headers = :new WHERE id = :row AND headers = :old RETURNING 1;

-- name: reseal_endpoint_sealed_url
UPDATE endpoint SET sealed_url = :new WHERE id = :row AND sealed_url = :old RETURNING 1;

-- name: reseal_answer_response
-- It must use the index, as `sealed_next` does.
UPDATE answer SET response = :new
 WHERE substr(response, 1, 5) = substr(:old, 1, 5) AND CAST(lower(hex(key)) AS text) = :row AND response = :old RETURNING 1;
