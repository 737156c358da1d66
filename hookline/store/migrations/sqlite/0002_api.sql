-- What the HTTP API keeps for itself: keys, answers, tasks.

ALTER TABLE event_type ADD COLUMN validated integer NOT NULL DEFAULT 0;   -- payloads must fit the newest schema

CREATE TABLE api_key (
    id           text PRIMARY KEY,
    org_id       text NOT NULL REFERENCES organization (id),
    app_no       integer REFERENCES application (no),   -- NULL: all of them
    name         text NOT NULL,
    scope        text NOT NULL,                         -- full | publish | read
    hash         blob NOT NULL UNIQUE,
    hint         text NOT NULL,                         -- its last characters, to tell keys apart
    created_at   integer NOT NULL,
    expires_at   integer,
    last_used_at integer,
    revoked_at   integer
) STRICT;
CREATE INDEX api_key_list ON api_key (org_id, id) WHERE revoked_at IS NULL;

ALTER TABLE idempotency ADD COLUMN answers blob;   -- of a batch, which has no message_id

-- Tokens that were given up before their time, until they would have expired.
CREATE TABLE revoked_token (
    hash       blob PRIMARY KEY,
    expires_at integer NOT NULL
) STRICT;
CREATE INDEX revoked_token_age ON revoked_token (expires_at);

-- Answers to POSTs with an Idempotency-Key, apart from those that accept a message: see `idempotency`.
CREATE TABLE answer (
    key        blob PRIMARY KEY,
    body       blob NOT NULL,
    claim      integer,           -- who is at it
    held_until integer,           -- after that, whoever asks takes over
    status     integer,           -- NULL: not answered yet
    response   blob,
    expires_at integer NOT NULL
) STRICT;
CREATE INDEX answer_age ON answer (expires_at);

-- Long work that was asked for over the API and is done by the workers in steps, across restarts.
CREATE TABLE task (
    id          text PRIMARY KEY,
    org_id      text NOT NULL,
    app_no      integer,
    endpoint_no integer,
    kind        text NOT NULL,
    status      text NOT NULL,    -- running | finished | failed | canceled
    params      text NOT NULL,
    done        integer NOT NULL DEFAULT 0,
    skipped     integer NOT NULL DEFAULT 0,   -- matched, and was left as it is
    total       integer,           -- that matched at the start; NULL: too many to count
    position    text,              -- where the next step begins; NULL: at the start
    error       text,
    created_at  integer NOT NULL,
    updated_at  integer NOT NULL
) STRICT;
CREATE INDEX task_open ON task (updated_at, id) WHERE status = 'running';
CREATE INDEX task_list ON task (org_id, id);
CREATE INDEX task_app ON task (app_no, id);
CREATE INDEX task_age ON task (updated_at) WHERE status <> 'running';

-- To list what failed without walking over what succeeded.
CREATE INDEX attempt_failed ON attempt (endpoint_no, id) WHERE outcome <> 'delivered';

-- An example for one endpoint alone: nobody else gets it, whatever they subscribe to.
ALTER TABLE message ADD COLUMN only_for integer;

-- To count what an organization's or an application's endpoints did, deleted ones too, by time.
CREATE INDEX endpoint_app ON endpoint (app_no);

-- What was sent again by hand: few.
CREATE INDEX delivery_manual ON delivery (app_no) WHERE trigger = 1;

-- Dead letters are listed by when they died.
DROP INDEX dead_letter_app;
DROP INDEX dead_letter_endpoint;
DROP INDEX dead_letter_open;
CREATE INDEX dead_letter_app ON dead_letter (app_no, died_at);
CREATE INDEX dead_letter_endpoint ON dead_letter (endpoint_no, died_at);
CREATE INDEX dead_letter_open ON dead_letter (died_at) WHERE resolved_at IS NULL;
