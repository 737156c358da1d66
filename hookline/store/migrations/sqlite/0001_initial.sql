-- The same tables as PostgreSQL's. Instants are microseconds since 1970. Lists and objects are JSON text. Booleans are
-- 0 or 1.

CREATE TABLE organization (
    id                 text PRIMARY KEY,
    name               text NOT NULL,
    tokens_valid_after integer,
    created_at         integer NOT NULL
) STRICT;

CREATE TABLE application (
    no                 integer PRIMARY KEY AUTOINCREMENT,
    id                 text NOT NULL UNIQUE,
    org_id             text NOT NULL REFERENCES organization (id),
    uid                text,
    name               text NOT NULL,
    throttle_rate      integer,
    metadata           text NOT NULL DEFAULT '{}',
    tokens_valid_after integer,
    created_at         integer NOT NULL,
    updated_at         integer NOT NULL,
    deleted_at         integer
) STRICT;
CREATE UNIQUE INDEX application_uid ON application (org_id, uid) WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX application_list ON application (org_id, id) WHERE deleted_at IS NULL;
CREATE INDEX application_org ON application (org_id);

CREATE TABLE event_type (
    org_id        text NOT NULL REFERENCES organization (id),
    name          text NOT NULL,
    description   text NOT NULL DEFAULT '',
    archived      integer NOT NULL DEFAULT 0,
    deprecated    integer NOT NULL DEFAULT 0,
    schemas       text,
    feature_flags text NOT NULL DEFAULT '[]',
    group_name    text,
    policy        text,
    created_at    integer NOT NULL,
    updated_at    integer NOT NULL,
    validated     integer NOT NULL DEFAULT 0,   -- payloads must match the newest schema
    PRIMARY KEY (org_id, name)
) STRICT;

CREATE TABLE endpoint (
    no            integer PRIMARY KEY AUTOINCREMENT,
    id            text NOT NULL UNIQUE,
    app_no        integer NOT NULL REFERENCES application (no),
    uid           text,
    url           text NOT NULL,
    description   text NOT NULL DEFAULT '',
    version       integer NOT NULL DEFAULT 1,
    event_types   text,
    channels      text,
    status        integer NOT NULL DEFAULT 0,
    status_reason text,
    throttle_rate real,
    concurrency   integer,
    ordering      text NOT NULL DEFAULT 'key',
    scheme        text NOT NULL DEFAULT 'standard',
    -- The vault encrypts both values. `secrets` decrypts only with the endpoint's id as associated data, and `headers`
    -- only with `<endpoint id>/headers`.
    secrets       blob NOT NULL,
    headers       blob,
    metadata      text NOT NULL DEFAULT '{}',
    policy        text,
    revision      integer NOT NULL DEFAULT 1,
    created_at    integer NOT NULL,
    updated_at    integer NOT NULL,
    deleted_at    integer,
    on_death      text NOT NULL DEFAULT 'skip',   -- skip | block: whether a dead delivery blocks the rest of its queue
    sealed_url    blob   -- the whole URL if it is secret (alerts, operational webhooks); `url` then has only the host
) STRICT;
CREATE UNIQUE INDEX endpoint_uid ON endpoint (app_no, uid) WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX endpoint_list ON endpoint (app_no, id) WHERE deleted_at IS NULL;
-- Finds the endpoints of an organization or an application, deleted ones too, for counting.
CREATE INDEX endpoint_app ON endpoint (app_no);
-- The first five bytes of an encrypted value name the key. These indexes find the values of one key.
CREATE INDEX endpoint_secrets_key ON endpoint (substr(secrets, 1, 5), id);
CREATE INDEX endpoint_headers_key ON endpoint (substr(headers, 1, 5), id) WHERE headers IS NOT NULL;
CREATE INDEX endpoint_url_key ON endpoint (substr(sealed_url, 1, 5), id) WHERE sealed_url IS NOT NULL;

-- The history is in `message`, `delivery_done` and `attempt`. Retention deletes old rows of these tables in batches. It
-- finds the rows by the indexes `message_age`, `delivery_done_age` and `attempt_age`.
CREATE TABLE message (
    seq          integer PRIMARY KEY AUTOINCREMENT,
    id           text NOT NULL,
    app_no       integer NOT NULL,
    event_type   text NOT NULL,
    event_id     text,
    channels     text,
    tags         text,
    ordering_key text,
    deliver_at   integer,
    policy       text,
    payload      blob,             -- the original bytes; NULL after it was expunged
    created_at   integer NOT NULL,
    only_for     integer,   -- the endpoint that a test message is for; NULL: not a test message
    trace        text   -- the publisher's traceparent, and tracestate after a space
) STRICT;
CREATE INDEX message_id ON message (id);
CREATE INDEX message_app ON message (app_no, id);
CREATE INDEX message_age ON message (created_at);

CREATE TABLE event_id (
    app_no     integer NOT NULL,
    event_id   text NOT NULL,
    message_id text NOT NULL,
    created_at integer NOT NULL,
    PRIMARY KEY (app_no, event_id)
) STRICT;
CREATE INDEX event_id_age ON event_id (created_at);

CREATE TABLE idempotency (
    key        blob PRIMARY KEY,
    body       blob NOT NULL,
    message_id text NOT NULL,
    created_at integer NOT NULL,
    expires_at integer NOT NULL,
    answers    blob   -- the stored answers, if the request was a batch; message_id is then ''
) STRICT;
CREATE INDEX idempotency_age ON idempotency (expires_at);

CREATE TABLE outbox (
    id           integer PRIMARY KEY AUTOINCREMENT,
    -- The organization of the application. If it is NULL and `app` is a uid, Hookline must have exactly one
    -- organization. Otherwise the relay sets the row aside. An application id needs no organization.
    org_id       text,
    app          text NOT NULL,     -- id or uid of the application
    event_type   text NOT NULL,
    payload      blob NOT NULL,
    event_id     text,
    channels     text,
    tags         text,
    ordering_key text,
    deliver_at   integer,
    policy       text,
    error        text,              -- the reason why the row was set aside
    created_at   integer NOT NULL,
    trace        text,   -- traceparent, and tracestate after a space
    source       text,   -- the database from which a row that was set aside came; NULL: this database
    set_aside_at integer
) STRICT;
CREATE INDEX outbox_new ON outbox (id) WHERE error IS NULL;
CREATE INDEX outbox_aside ON outbox (id) WHERE error IS NOT NULL;
CREATE INDEX outbox_copied ON outbox (source, event_id) WHERE source IS NOT NULL;

-- Only open deliveries, so that the table stays small.
CREATE TABLE delivery (
    id           integer PRIMARY KEY AUTOINCREMENT,
    app_no       integer NOT NULL,
    endpoint_no  integer NOT NULL,
    message_seq  integer NOT NULL,
    message_at   integer NOT NULL,          -- with message_seq: the key of the message
    message_id   text NOT NULL,
    event_type   text NOT NULL,
    state        integer NOT NULL DEFAULT 0,   -- states.DeliveryState
    attempts     integer NOT NULL DEFAULT 0,
    sent         integer NOT NULL DEFAULT 0,
    trigger      integer NOT NULL DEFAULT 0,
    due_at       integer NOT NULL,
    expires_at   integer NOT NULL,
    lease_until  integer,
    claim        integer,
    counted      integer NOT NULL DEFAULT 0,
    last_delay   real NOT NULL DEFAULT 0,
    last_status  integer,
    policy       text,
    ordering_key text   -- the delivery's queue: the message's key, or '' at a fifo endpoint; NULL: no queue
) STRICT;
CREATE INDEX delivery_due ON delivery (endpoint_no, due_at, id) WHERE state < 2;
CREATE INDEX delivery_lease ON delivery (lease_until) WHERE state = 2;
CREATE INDEX delivery_expires ON delivery (expires_at, state) WHERE state < 2;
CREATE INDEX delivery_message ON delivery (message_id);
-- Finds deliveries of trigger 1: replays, resends and test messages. They are few.
CREATE INDEX delivery_manual ON delivery (app_no) WHERE trigger = 1;
-- The unique index allows at most one active delivery per queue. Deliveries without a queue are not in these indexes.
CREATE UNIQUE INDEX delivery_active ON delivery (endpoint_no, ordering_key) WHERE state < 3 AND ordering_key IS NOT NULL;
CREATE INDEX delivery_queued ON delivery (endpoint_no, ordering_key, message_seq, id) WHERE state = 6;
CREATE INDEX delivery_queued_expires ON delivery (expires_at) WHERE state = 6;

CREATE TABLE delivery_done (
    id          integer NOT NULL,
    app_no      integer NOT NULL,
    endpoint_no integer NOT NULL,
    message_seq integer NOT NULL,
    message_at  integer NOT NULL,
    message_id  text NOT NULL,
    event_type  text NOT NULL,
    attempts    integer NOT NULL,
    sent        integer NOT NULL,
    finished_at integer NOT NULL
) STRICT;
CREATE INDEX delivery_done_message ON delivery_done (message_id);
CREATE INDEX delivery_done_age ON delivery_done (finished_at);

-- Retention deletes a resolved dead letter after `retention_days`, and every dead letter after `dead_retention_days`.
CREATE TABLE dead_letter (
    id          integer PRIMARY KEY,             -- the delivery's id
    app_no      integer NOT NULL,
    endpoint_no integer NOT NULL,
    message_seq integer NOT NULL,
    message_at  integer NOT NULL,
    message_id  text NOT NULL,
    event_type  text NOT NULL,
    attempts    integer NOT NULL,
    sent        integer NOT NULL,
    policy      text,
    last_status integer,
    reason      text NOT NULL,
    detail      text NOT NULL,
    died_at     integer NOT NULL,
    resolved_at integer,
    note        text,
    ordering_key text
) STRICT;
CREATE INDEX dead_letter_app ON dead_letter (app_no, died_at);
CREATE INDEX dead_letter_endpoint ON dead_letter (endpoint_no, died_at);
CREATE INDEX dead_letter_open ON dead_letter (died_at) WHERE resolved_at IS NULL;
CREATE INDEX dead_letter_message ON dead_letter (message_id);
CREATE INDEX dead_letter_age ON dead_letter (died_at);
CREATE INDEX dead_letter_blocks ON dead_letter (endpoint_no, ordering_key, message_seq)
    WHERE ordering_key IS NOT NULL AND resolved_at IS NULL;
-- Finds each endpoint that has unresolved dead letters, and the oldest of them, without reading all dead letters of the
-- endpoint.
CREATE INDEX dead_letter_unresolved ON dead_letter (app_no, endpoint_no, died_at) WHERE resolved_at IS NULL;
CREATE INDEX dead_letter_keeps ON dead_letter (message_at);

CREATE TABLE attempt (
    id               text NOT NULL,
    delivery_id      integer NOT NULL,
    app_no           integer NOT NULL,
    endpoint_no      integer NOT NULL,
    message_id       text NOT NULL,
    event_type       text NOT NULL,
    number           integer NOT NULL,
    trigger          integer NOT NULL,
    outcome          text NOT NULL,             -- delivered | retry | dead
    probe            integer NOT NULL,
    started_at       integer NOT NULL,
    status_code      integer,
    error            text,
    detail           text NOT NULL,
    address          text NOT NULL,
    response_headers blob,                     -- JSON as bytes, because endpoints may send invalid text
    response_body    blob,
    truncated        integer NOT NULL,
    dns_us           integer NOT NULL,
    connect_us       integer NOT NULL,
    tls_us           integer NOT NULL,
    first_byte_us    integer NOT NULL,
    total_us         integer NOT NULL,
    recorded_at      integer NOT NULL
) STRICT;
CREATE INDEX attempt_message ON attempt (message_id);
CREATE INDEX attempt_endpoint ON attempt (endpoint_no, id);
-- Lists failed attempts without reading the successful ones.
CREATE INDEX attempt_failed ON attempt (endpoint_no, id) WHERE outcome <> 'delivered';
CREATE INDEX attempt_age ON attempt (recorded_at);

-- One row per endpoint; fields as in `model.Lane`. Only claim, record, sweep and status changes write it, under its
-- lock.
CREATE TABLE lane (
    endpoint_no   integer PRIMARY KEY,
    app_no        integer NOT NULL,
    status        integer NOT NULL DEFAULT 0,
    revision      integer NOT NULL DEFAULT 1,
    circuit       integer NOT NULL DEFAULT 0,
    epoch         integer NOT NULL DEFAULT 0,
    failures      integer NOT NULL DEFAULT 0,
    failing_since integer,
    trips         integer NOT NULL DEFAULT 0,
    opened_at     integer,
    probe_at      integer,
    "window"      integer,
    window_at     integer,
    in_flight     integer NOT NULL DEFAULT 0,
    waiting_floor integer,
    throttle_rate real,
    concurrency   integer,
    tat           integer,
    held_until    integer,
    -- Maximum requests per second, after a complaint of the endpoint (429, or 503 with Retry-After) or a failure under
    -- load: the circuit opened while the lane recovered or had a pace, and its rate was high (see LOADED in
    -- rules/lane/pace.py). NULL: no limit.
    pace          real,
    -- When the pace last changed. A successful probe of an open circuit sets it to three minutes after the probe, so
    -- that the pace does not rise before that time.
    pace_at       integer,
    -- The rate that was too high, in requests per second: the rate limit of the lane at a complaint, or at the first
    -- failure during a recovery. After a failure under load: half of the rate at which the endpoint failed. NULL:
    -- unknown.
    pace_top      real,
    -- The later of two times: when the pace was last lowered, and the last successful probe of an open circuit. A
    -- success ten minutes or more after this time removes the pace.
    slowed_at     integer,
    app_rate      real,   -- the rate limit of the lane's application in requests per second; see app_pace
    turn_at       integer   -- when the lane may start its next request under `app_rate`
) STRICT;
CREATE INDEX lane_failing ON lane (failing_since) WHERE failing_since IS NOT NULL;
CREATE INDEX lane_deleted ON lane (endpoint_no) WHERE status = 3;
CREATE INDEX lane_open ON lane (circuit) WHERE circuit > 0;

CREATE TABLE wake (
    id          integer PRIMARY KEY,
    endpoint_no integer NOT NULL,
    at          integer NOT NULL,
    floor       integer NOT NULL,   -- the smallest due_at of the deliveries that the wake token announces
    keys        text,   -- queues to check: ordering keys as JSON strings, separated by commas; see rules/ordering.py
    app_no      integer   -- the lane's application; a claim uses it to find the next application with due wake tokens
) STRICT;
CREATE INDEX wake_at ON wake (at);
CREATE INDEX wake_endpoint ON wake (endpoint_no);
CREATE INDEX wake_app ON wake (app_no, at);

CREATE TABLE lane_event (
    id          integer PRIMARY KEY AUTOINCREMENT,
    endpoint_no integer NOT NULL,
    app_no      integer NOT NULL,
    at          integer NOT NULL,
    kind        text NOT NULL,
    cause       text NOT NULL,
    actor       text,   -- the user who changed the lane by hand; NULL: the system changed it
    actor_name  text   -- name of the API key, if the actor is an API key
) STRICT;
CREATE INDEX lane_event_endpoint ON lane_event (endpoint_no, id);
CREATE INDEX lane_event_at ON lane_event (at);

CREATE TABLE api_key (
    id           text PRIMARY KEY,
    org_id       text NOT NULL REFERENCES organization (id),
    app_no       integer REFERENCES application (no),   -- NULL: all applications
    name         text NOT NULL,
    scope        text NOT NULL,                         -- full | publish | read
    hash         blob NOT NULL UNIQUE,
    hint         text NOT NULL,                         -- the key's last characters, to tell keys apart
    created_at   integer NOT NULL,
    expires_at   integer,
    last_used_at integer,
    revoked_at   integer
) STRICT;
CREATE INDEX api_key_list ON api_key (org_id, id) WHERE revoked_at IS NULL;

-- Revoked tokens, until they would have expired.
CREATE TABLE revoked_token (
    hash       blob PRIMARY KEY,
    expires_at integer NOT NULL
) STRICT;
CREATE INDEX revoked_token_age ON revoked_token (expires_at);

-- Stored responses to POSTs with an Idempotency-Key. For POSTs that publish messages, see `idempotency`.
CREATE TABLE answer (
    key        blob PRIMARY KEY,
    body       blob NOT NULL,
    claim      integer,           -- a random number of the request that holds the lease; only it may store a response
    held_until integer,           -- end of the lease; then a repeated request may take the lease
    status     integer,           -- NULL: not answered yet
    response   blob,
    expires_at integer NOT NULL
) STRICT;
CREATE INDEX answer_age ON answer (expires_at);
CREATE INDEX answer_key ON answer (substr(response, 1, 5), CAST(lower(hex(key)) AS text)) WHERE response IS NOT NULL;

-- Long work that a user started and that workers do in steps, across restarts.
CREATE TABLE task (
    id          text PRIMARY KEY,
    org_id      text NOT NULL,
    app_no      integer,
    endpoint_no integer,
    kind        text NOT NULL,
    status      text NOT NULL,    -- running | finished | failed | canceled
    params      text NOT NULL,
    done        integer NOT NULL DEFAULT 0,
    skipped     integer NOT NULL DEFAULT 0,   -- rows that matched and were left unchanged
    total       integer,           -- rows that matched at the start; NULL: too many to count
    position    text,              -- where the next step begins; NULL: at the start
    error       text,
    created_at  integer NOT NULL,
    updated_at  integer NOT NULL
) STRICT;
CREATE INDEX task_open ON task (updated_at, id) WHERE status = 'running';
CREATE INDEX task_list ON task (org_id, id);
CREATE INDEX task_app ON task (app_no, id);
CREATE INDEX task_age ON task (updated_at) WHERE status <> 'running';

-- The last row that the relay has read from each outbox in a SQLite file. The relay only reads these files.
CREATE TABLE outbox_place (
    source  text PRIMARY KEY,
    row_id  integer NOT NULL,
    row_uid text NOT NULL,
    at      integer NOT NULL
) STRICT;

-- The rate limit of an application, which its lanes share.
CREATE TABLE app_pace (
    app_no  integer PRIMARY KEY,
    tat     integer,                                  -- GCRA: the theoretical arrival time of the next request
    tail_at integer                                   -- the latest `turn_at` of the application's waiting lanes
) STRICT;

CREATE TABLE pulse (
    grain   integer NOT NULL,                         -- 0: a pulse of one process; 1: a minute, all processes together
    at      integer NOT NULL,                         -- the end of the pulse or minute
    process text NOT NULL,                            -- a random name of the process; '' if grain is 1
    data    blob NOT NULL,                            -- JSON, model.pulses.Pulse
    PRIMARY KEY (grain, at, process)
) STRICT, WITHOUT ROWID;

-- One row for each time that an alert fired.
CREATE TABLE alert (
    id          integer PRIMARY KEY AUTOINCREMENT,    -- never reused, because event ids of notifications contain it
    name        text NOT NULL,
    subject     text NOT NULL,                        -- the endpoint's id; '': the alert is about the whole system
    severity    text NOT NULL,                        -- warning | critical
    began_at    integer NOT NULL,                     -- when the condition began; the alert may fire later
    fired_at    integer NOT NULL,
    clear_since integer,                              -- since when the condition no longer holds
    resolved_at integer,
    value       real NOT NULL,                        -- the last measured value
    threshold   real NOT NULL,
    text        text NOT NULL                         -- a description for users
) STRICT;
CREATE UNIQUE INDEX alert_firing ON alert (name, subject) WHERE resolved_at IS NULL;
CREATE INDEX alert_fired ON alert (fired_at);

-- Conditions that become alerts if they last.
CREATE TABLE alert_pending (
    name     text NOT NULL,
    subject  text NOT NULL,
    began_at integer NOT NULL,
    PRIMARY KEY (name, subject)
) STRICT, WITHOUT ROWID;

-- The times at which any process checked the alert rules.
CREATE TABLE alert_look (
    at      integer PRIMARY KEY,
    backlog integer NOT NULL                          -- due deliveries at the time of the check
) STRICT;

CREATE TABLE operator (
    name           text PRIMARY KEY,
    org_id         text NOT NULL,
    role           text NOT NULL,                     -- full | read
    password       text NOT NULL,                     -- scrypt hash with its cost and salt
    created_at     integer NOT NULL,
    sessions_after integer NOT NULL                   -- sessions that began before this are invalid
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    hash            blob PRIMARY KEY,                 -- hash of the cookie's value
    org_id          text NOT NULL,
    app_no          integer,                          -- the application of a portal session
    role            text NOT NULL,
    operator        text,
    key_id          text,
    -- Hash of the token with which the user signed in: an API token, or the token in a portal link or a sign-in link.
    -- NULL: the user signed in with a password or an API key.
    token           blob,
    token_issued_at integer,
    created_at      integer NOT NULL,
    seen_at         integer NOT NULL,                 -- time of the last request, accurate to a minute
    expires_at      integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_age ON session (expires_at);
CREATE INDEX session_operator ON session (operator) WHERE operator IS NOT NULL;

-- Failed sign-ins by operator name, by IP network, by both together, and by name and browser. Wrong keys and tokens by
-- IP network.
CREATE TABLE guess (
    subject      blob PRIMARY KEY,                    -- keyed hash of the name, the network, both, or name and browser
    failures     integer NOT NULL,
    since        integer NOT NULL,
    seen_at      integer NOT NULL,
    locked_until integer
) STRICT, WITHOUT ROWID;
CREATE INDEX guess_age ON guess (seen_at);

CREATE TABLE audit (
    id         integer PRIMARY KEY AUTOINCREMENT,
    org_id     text NOT NULL,
    app_id     text,
    at         integer NOT NULL,
    actor      text NOT NULL,
    actor_name text,
    action     text NOT NULL,
    subject    text NOT NULL,
    detail     text NOT NULL,
    address    text NOT NULL
) STRICT;
CREATE INDEX audit_list ON audit (org_id, id);
CREATE INDEX audit_age ON audit (at);

CREATE TABLE activity (
    app_no      integer NOT NULL,
    endpoint_no integer NOT NULL,                     -- 0: the whole application
    grain       integer NOT NULL,                     -- length of the interval in seconds: 60 or 900
    at          integer NOT NULL,                     -- the start of the interval
    delivered   integer NOT NULL,
    retried     integer NOT NULL,
    dead        integer NOT NULL,
    PRIMARY KEY (app_no, endpoint_no, grain, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX activity_age ON activity (grain, at);

-- The sums of `activity` over all applications of an organization. Both tables are written together.
CREATE TABLE org_activity (
    org_id    text NOT NULL,
    grain     integer NOT NULL,
    at        integer NOT NULL,
    delivered integer NOT NULL,
    retried   integer NOT NULL,
    dead      integer NOT NULL,
    PRIMARY KEY (org_id, grain, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX org_activity_age ON org_activity (grain, at);

-- All encrypted values: see store/plans/sealed_values.py. `place` is the table and the column of a value, and `row` is
-- the id of its row. `head` is the first five bytes of the value, which name the encryption key. `sealed` is the value.
CREATE VIEW sealed_value (place, head, row, sealed) AS
SELECT 'endpoint.secrets', substr(secrets, 1, 5), id, secrets FROM endpoint
 UNION ALL
SELECT 'endpoint.headers', substr(headers, 1, 5), id, headers FROM endpoint WHERE headers IS NOT NULL
 UNION ALL
SELECT 'endpoint.sealed_url', substr(sealed_url, 1, 5), id, sealed_url FROM endpoint WHERE sealed_url IS NOT NULL
 UNION ALL
SELECT 'answer.response', substr(response, 1, 5), CAST(lower(hex(key)) AS text), response FROM answer WHERE response IS NOT NULL;

-- Secrets that verify tokens but no longer sign new ones. `since` is when the secret was registered as an
-- older one. `seen_at` is when a token that the secret signed was last used.
CREATE TABLE older_secret (
    id      blob PRIMARY KEY,                         -- hash of the secret
    since   integer NOT NULL,
    seen_at integer
) STRICT, WITHOUT ROWID;
