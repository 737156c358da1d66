-- The same tables as PostgreSQL's. Instants are microseconds since 1970; lists and objects are JSON text; booleans are 0 or 1.

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
    validated     integer NOT NULL DEFAULT 0,   -- payloads must fit the newest schema
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
    secrets       blob NOT NULL,   -- sealed by the vault, bound to the endpoint's id
    headers       blob,            -- sealed likewise
    metadata      text NOT NULL DEFAULT '{}',
    policy        text,
    revision      integer NOT NULL DEFAULT 1,
    created_at    integer NOT NULL,
    updated_at    integer NOT NULL,
    deleted_at    integer,
    on_death      text NOT NULL DEFAULT 'skip',   -- skip | block: what a dead delivery does to those behind it
    sealed_url    blob   -- the whole URL where it is a secret (alert channels, operational webhooks); `url` then has only the host
) STRICT;
CREATE UNIQUE INDEX endpoint_uid ON endpoint (app_no, uid) WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX endpoint_list ON endpoint (app_no, id) WHERE deleted_at IS NULL;
-- To count what an organization's or an application's endpoints did, deleted ones too, by time.
CREATE INDEX endpoint_app ON endpoint (app_no);
-- The first five bytes of a sealed value name the key. These indexes find those of one key.
CREATE INDEX endpoint_secrets_key ON endpoint (substr(secrets, 1, 5), id);
CREATE INDEX endpoint_headers_key ON endpoint (substr(headers, 1, 5), id) WHERE headers IS NOT NULL;
CREATE INDEX endpoint_url_key ON endpoint (substr(sealed_url, 1, 5), id) WHERE sealed_url IS NOT NULL;

-- History: retention deletes it in batches, by the indexes on its age.
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
    payload      blob,             -- as it came; NULL once expunged
    created_at   integer NOT NULL,
    only_for     integer,   -- an example for this endpoint alone, whatever others subscribe to
    trace        text   -- of the publisher: traceparent, and tracestate after a space
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
    answers    blob   -- of a batch, which has no message_id
) STRICT;
CREATE INDEX idempotency_age ON idempotency (expires_at);

CREATE TABLE outbox (
    id           integer PRIMARY KEY AUTOINCREMENT,
    org_id       text,              -- NULL: the only organization, or the one `app` is an id of
    app          text NOT NULL,     -- id or uid
    event_type   text NOT NULL,
    payload      blob NOT NULL,
    event_id     text,
    channels     text,
    tags         text,
    ordering_key text,
    deliver_at   integer,
    policy       text,
    error        text,              -- set aside, and why
    created_at   integer NOT NULL,
    trace        text,   -- traceparent, and tracestate after a space
    source       text,   -- the database that a row which stands aside came from; NULL: this one
    set_aside_at integer
) STRICT;
CREATE INDEX outbox_new ON outbox (id) WHERE error IS NULL;
CREATE INDEX outbox_aside ON outbox (id) WHERE error IS NOT NULL;
CREATE INDEX outbox_copied ON outbox (source, event_id) WHERE source IS NOT NULL;

-- Open deliveries only, so that it stays small.
CREATE TABLE delivery (
    id           integer PRIMARY KEY AUTOINCREMENT,
    app_no       integer NOT NULL,
    endpoint_no  integer NOT NULL,
    message_seq  integer NOT NULL,
    message_at   integer NOT NULL,          -- with message_seq: the message's key
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
    ordering_key text   -- the queue that it stands in: the message's key, '' for all of a fifo endpoint, NULL for none
) STRICT;
CREATE INDEX delivery_due ON delivery (endpoint_no, due_at, id) WHERE state < 2;
CREATE INDEX delivery_lease ON delivery (lease_until) WHERE state = 2;
CREATE INDEX delivery_expires ON delivery (expires_at, state) WHERE state < 2;
CREATE INDEX delivery_message ON delivery (message_id);
-- What was sent again by hand: few.
CREATE INDEX delivery_manual ON delivery (app_no) WHERE trigger = 1;
-- One at a time, whatever goes wrong elsewhere. Deliveries without a key are in none of these.
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

-- Never deleted while unresolved, before its own retention is over.
CREATE TABLE dead_letter (
    id          integer PRIMARY KEY,             -- the delivery's
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
-- Whose dead letters nobody has resolved: found one endpoint after the other, however many each has, and the oldest of each
-- without stepping over those that somebody has resolved.
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
    response_headers blob,                     -- JSON; bytes, because endpoints send what they like
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
-- To list what failed without walking over what succeeded.
CREATE INDEX attempt_failed ON attempt (endpoint_no, id) WHERE outcome <> 'delivered';
CREATE INDEX attempt_age ON attempt (recorded_at);

-- One row per endpoint; fields as in model.Lane. Written only by claim, record, sweep and status changes, under its lock.
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
    pace          real,   -- starts a second; NULL: the endpoint has not complained
    pace_at       integer,   -- when it last changed
    pace_top      real,   -- that was too much, the last time
    slowed_at     integer,   -- the last complaint that slowed it
    app_rate      real,   -- the application's own limit; see app_pace
    turn_at       integer   -- its turn among the lanes that wait for that limit
) STRICT;
CREATE INDEX lane_failing ON lane (failing_since) WHERE failing_since IS NOT NULL;
CREATE INDEX lane_deleted ON lane (endpoint_no) WHERE status = 3;
CREATE INDEX lane_open ON lane (circuit) WHERE circuit > 0;

CREATE TABLE wake (
    id          integer PRIMARY KEY,
    endpoint_no integer NOT NULL,
    at          integer NOT NULL,
    floor       integer NOT NULL,   -- the smallest due_at of the rows that the token announces
    keys        text,   -- queues in which somebody's turn may have come: JSON strings with commas between them; see order.written
    app_no      integer   -- whose lane it wakes: a claim finds the next application that has something ready
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
    actor       text,   -- who changed the lane by hand; NULL: nobody, it came about by itself
    actor_name  text   -- keys of the API have a name
) STRICT;
CREATE INDEX lane_event_endpoint ON lane_event (endpoint_no, id);
CREATE INDEX lane_event_at ON lane_event (at);

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
CREATE INDEX answer_key ON answer (substr(response, 1, 5), CAST(lower(hex(key)) AS text)) WHERE response IS NOT NULL;

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

-- Outboxes in SQLite files, which are only read.
CREATE TABLE outbox_place (
    source  text PRIMARY KEY,
    row_id  integer NOT NULL,
    row_uid text NOT NULL,
    at      integer NOT NULL
) STRICT;

-- The limit of an application, shared by its lanes.
CREATE TABLE app_pace (
    app_no  integer PRIMARY KEY,
    tat     integer,                                  -- GCRA: the theoretical arrival time of the next start
    tail_at integer                                   -- the last turn that was given to a lane that waits
) STRICT;

CREATE TABLE pulse (
    grain   integer NOT NULL,                         -- 0: of one process, as it came; 1: a minute of all of them
    at      integer NOT NULL,                         -- its end
    process text NOT NULL,                            -- a random name; '' for a minute of all
    data    blob NOT NULL,                            -- JSON, observe.pulse.Pulse
    PRIMARY KEY (grain, at, process)
) STRICT, WITHOUT ROWID;

-- One row for each time that an alert fired.
CREATE TABLE alert (
    id          integer PRIMARY KEY AUTOINCREMENT,    -- never again: messages are told apart by it
    name        text NOT NULL,
    subject     text NOT NULL,                        -- what it is about, where that is not the whole: an endpoint's id; else ''
    severity    text NOT NULL,                        -- warning | critical
    began_at    integer NOT NULL,                     -- what it tells of; it may have to last before it is told
    fired_at    integer NOT NULL,
    clear_since integer,                              -- it seems to be over
    resolved_at integer,
    value       real NOT NULL,                        -- the last that was seen
    threshold   real NOT NULL,
    text        text NOT NULL                         -- for people, likewise
) STRICT;
CREATE UNIQUE INDEX alert_firing ON alert (name, subject) WHERE resolved_at IS NULL;
CREATE INDEX alert_fired ON alert (fired_at);

-- What will be an alert if it lasts.
CREATE TABLE alert_pending (
    name     text NOT NULL,
    subject  text NOT NULL,
    began_at integer NOT NULL,
    PRIMARY KEY (name, subject)
) STRICT, WITHOUT ROWID;

-- Each time that the rules were asked, by whichever process.
CREATE TABLE alert_look (
    at      integer PRIMARY KEY,
    backlog integer NOT NULL                          -- deliveries that were due
) STRICT;

CREATE TABLE operator (
    name           text PRIMARY KEY,
    org_id         text NOT NULL,
    role           text NOT NULL,                     -- full | read
    password       text NOT NULL,                     -- scrypt, with its cost and salt
    created_at     integer NOT NULL,
    sessions_after integer NOT NULL                   -- those that began before are over
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    hash            blob PRIMARY KEY,                 -- of what the cookie holds
    org_id          text NOT NULL,
    app_no          integer,                          -- the portal: this application alone
    role            text NOT NULL,
    operator        text,
    key_id          text,
    token           blob,                             -- hash
    token_issued_at integer,
    created_at      integer NOT NULL,
    seen_at         integer NOT NULL,                 -- to the minute
    expires_at      integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_age ON session (expires_at);
CREATE INDEX session_operator ON session (operator) WHERE operator IS NOT NULL;

CREATE TABLE guess (
    subject      blob PRIMARY KEY,                    -- hash of a name, an address, or both
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
    endpoint_no integer NOT NULL,                     -- 0: all of the application
    grain       integer NOT NULL,                     -- seconds: 60, 900
    at          integer NOT NULL,                     -- its start
    delivered   integer NOT NULL,
    retried     integer NOT NULL,
    dead        integer NOT NULL,
    PRIMARY KEY (app_no, endpoint_no, grain, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX activity_age ON activity (grain, at);

-- Of all applications of an organization: a sum, kept beside those of `activity`.
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

-- Values that the vault has sealed, and with which key: see store/sealed.py.
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
