-- What is sealed, and with which key. See store/sealed.py; the next migration has the indexes.

-- The whole URL where it is a secret (alert channels, operational webhooks); `url` then has only the host.
ALTER TABLE hookline.endpoint ADD COLUMN sealed_url bytea;

-- No branch has a WHERE: with one, the planner would sort all of it for each batch. A head in a range is not NULL.
CREATE VIEW hookline.sealed_value (place, head, "row", sealed) AS
SELECT 'endpoint.secrets'::text, substring(secrets FROM 1 FOR 5), id, secrets FROM hookline.endpoint
UNION ALL
SELECT 'endpoint.headers'::text, substring(headers FROM 1 FOR 5), id, headers FROM hookline.endpoint
UNION ALL
SELECT 'endpoint.sealed_url'::text, substring(sealed_url FROM 1 FOR 5), id, sealed_url FROM hookline.endpoint
UNION ALL
SELECT 'answer.response'::text, substring(response FROM 1 FOR 5), encode(key, 'hex') COLLATE "C", response FROM hookline.answer;

-- Secrets that no longer sign tokens and still verify them: since when that is so, and when one of their tokens was last used.
CREATE TABLE hookline.older_secret (
    id      bytea PRIMARY KEY,                        -- a hash of it
    since   timestamptz NOT NULL,
    seen_at timestamptz
);
