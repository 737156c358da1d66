-- What the HTTP API keeps for itself: keys, answers, tasks.

ALTER TABLE hookline.event_type ADD COLUMN validated boolean NOT NULL DEFAULT false;   -- payloads must fit the newest schema

CREATE TABLE hookline.api_key (
    id           text COLLATE "C" PRIMARY KEY,
    org_id       text COLLATE "C" NOT NULL REFERENCES hookline.organization (id),
    app_no       bigint REFERENCES hookline.application (no),   -- NULL: all of them
    name         text NOT NULL,
    scope        text NOT NULL,                                 -- full | publish | read
    hash         bytea NOT NULL UNIQUE,
    hint         text NOT NULL,                                 -- its last characters, to tell keys apart
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);
CREATE INDEX api_key_list ON hookline.api_key (org_id, id) WHERE revoked_at IS NULL;

ALTER TABLE hookline.idempotency ADD COLUMN answers bytea;   -- of a batch, which has no message_id

-- Tokens that were given up before their time, until they would have expired.
CREATE TABLE hookline.revoked_token (
    hash       bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE INDEX revoked_token_age ON hookline.revoked_token (expires_at);

-- Answers to POSTs with an Idempotency-Key, apart from those that accept a message: see `idempotency`.
CREATE TABLE hookline.answer (
    key        bytea PRIMARY KEY,
    body       bytea NOT NULL,
    claim      bigint,            -- who is at it
    held_until timestamptz,       -- after that, whoever asks takes over
    status     integer,           -- NULL: not answered yet
    response   bytea,
    expires_at timestamptz NOT NULL
);
CREATE INDEX answer_age ON hookline.answer (expires_at);

-- Long work that was asked for over the API and is done by the workers in steps, across restarts.
CREATE TABLE hookline.task (
    id          text COLLATE "C" PRIMARY KEY,
    org_id      text COLLATE "C" NOT NULL,
    app_no      bigint,
    endpoint_no bigint,
    kind        text NOT NULL,
    status      text NOT NULL,    -- running | finished | failed | canceled
    params      jsonb NOT NULL,
    done        bigint NOT NULL DEFAULT 0,
    skipped     bigint NOT NULL DEFAULT 0,   -- matched, and was left as it is
    total       bigint,            -- that matched at the start; NULL: too many to count
    position    text,              -- where the next step begins; NULL: at the start
    error       text,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);
CREATE INDEX task_open ON hookline.task (updated_at, id) WHERE status = 'running';
CREATE INDEX task_list ON hookline.task (org_id, id);
CREATE INDEX task_app ON hookline.task (app_no, id);
CREATE INDEX task_age ON hookline.task (updated_at) WHERE status <> 'running';

-- To list what failed without walking over what succeeded.
CREATE INDEX attempt_failed ON hookline.attempt (endpoint_no, id) WHERE outcome <> 'delivered';

-- An example for one endpoint alone: nobody else gets it, whatever they subscribe to.
ALTER TABLE hookline.message ADD COLUMN only_for bigint;

-- To count what an organization's or an application's endpoints did, deleted ones too, by time.
CREATE INDEX endpoint_app ON hookline.endpoint (app_no);
CREATE INDEX application_org ON hookline.application (org_id);

-- What was sent again by hand: few.
CREATE INDEX delivery_manual ON hookline.delivery (app_no) WHERE trigger = 1;

-- Dead letters are listed by when they died.
DROP INDEX hookline.dead_letter_app, hookline.dead_letter_endpoint, hookline.dead_letter_open, hookline.dead_letter_age;
CREATE INDEX dead_letter_app ON hookline.dead_letter (app_no, died_at, id);
CREATE INDEX dead_letter_endpoint ON hookline.dead_letter (endpoint_no, died_at, id);
CREATE INDEX dead_letter_open ON hookline.dead_letter (died_at, id) WHERE resolved_at IS NULL;
CREATE INDEX dead_letter_age ON hookline.dead_letter (died_at, id);

-- What `record_plain` is told of one delivery: its fence, and of the attempt what the delivery's row does not have.
CREATE TYPE hookline.receipt AS (
    delivery_id      bigint,
    claim            bigint,
    attempt_id       text,
    started_at       timestamptz,
    status_code      integer,
    detail           text,
    address          text,
    response_headers bytea,
    response_body    bytea,
    truncated        boolean,
    dns_us           integer,
    connect_us       integer,
    tls_us           integer,
    first_byte_us    integer,
    total_us         integer
);
