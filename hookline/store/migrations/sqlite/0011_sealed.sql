-- What is sealed, and with which key: found without reading all of it. See store/sealed.py.

-- The whole URL where it is a secret (alert channels, operational webhooks); `url` then has only the host.
ALTER TABLE endpoint ADD COLUMN sealed_url blob;

-- The first five bytes of a sealed value name the key. These indexes find those of one key.
CREATE INDEX endpoint_secrets_key ON endpoint (substr(secrets, 1, 5), id);
CREATE INDEX endpoint_headers_key ON endpoint (substr(headers, 1, 5), id) WHERE headers IS NOT NULL;
CREATE INDEX endpoint_url_key ON endpoint (substr(sealed_url, 1, 5), id) WHERE sealed_url IS NOT NULL;
CREATE INDEX answer_key ON answer (substr(response, 1, 5), CAST(lower(hex(key)) AS text)) WHERE response IS NOT NULL;

CREATE VIEW sealed_value (place, head, row, sealed) AS
SELECT 'endpoint.secrets', substr(secrets, 1, 5), id, secrets FROM endpoint
 UNION ALL
SELECT 'endpoint.headers', substr(headers, 1, 5), id, headers FROM endpoint WHERE headers IS NOT NULL
 UNION ALL
SELECT 'endpoint.sealed_url', substr(sealed_url, 1, 5), id, sealed_url FROM endpoint WHERE sealed_url IS NOT NULL
 UNION ALL
SELECT 'answer.response', substr(response, 1, 5), CAST(lower(hex(key)) AS text), response FROM answer WHERE response IS NOT NULL;

-- Secrets that no longer sign tokens and still verify them: since when that is so, and when one of their tokens was last used.
CREATE TABLE older_secret (
    id      blob PRIMARY KEY,                         -- a hash of it
    since   integer NOT NULL,
    seen_at integer
) STRICT, WITHOUT ROWID;
