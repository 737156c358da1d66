-- What is sealed, and with which key. See store/sealed.py; the next migration has the indexes.

-- The whole URL where it is a secret (alert channels, operational webhooks); `url` then has only the host.
ALTER TABLE endpoint ADD COLUMN sealed_url blob;

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
