-- What is sealed with which key is found without reading all of it.

-- A migration of their own: ALTER TABLE locks `endpoint` against readers until its transaction ends, and these indexes take
-- seconds on a large table. To alter it after them would be a deadlock with those who have read an endpoint to change it.
-- The answers come first: those who change an endpoint wait from the first index on `endpoint`, and hold its lane meanwhile.

-- The first five bytes of a sealed value name the key. These indexes find those of one key.
CREATE INDEX answer_key ON hookline.answer (substring(response FROM 1 FOR 5), (encode(key, 'hex') COLLATE "C"))
 WHERE response IS NOT NULL;
CREATE INDEX endpoint_secrets_key ON hookline.endpoint (substring(secrets FROM 1 FOR 5), id);
CREATE INDEX endpoint_headers_key ON hookline.endpoint (substring(headers FROM 1 FOR 5), id)
 WHERE headers IS NOT NULL;
CREATE INDEX endpoint_url_key ON hookline.endpoint (substring(sealed_url FROM 1 FOR 5), id)
 WHERE sealed_url IS NOT NULL;
