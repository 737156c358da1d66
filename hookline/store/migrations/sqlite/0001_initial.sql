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
    ordering      text NOT NULL DEFAULT 'none',
    scheme        text NOT NULL DEFAULT 'standard',
    secrets       blob NOT NULL,   -- sealed by the vault, bound to the endpoint's id
    headers       blob,            -- sealed likewise
    metadata      text NOT NULL DEFAULT '{}',
    policy        text,
    revision      integer NOT NULL DEFAULT 1,
    created_at    integer NOT NULL,
    updated_at    integer NOT NULL,
    deleted_at    integer
) STRICT;
CREATE UNIQUE INDEX endpoint_uid ON endpoint (app_no, uid) WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX endpoint_list ON endpoint (app_no, id) WHERE deleted_at IS NULL;

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
    created_at   integer NOT NULL
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
    expires_at integer NOT NULL
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
    created_at   integer NOT NULL
) STRICT;
CREATE INDEX outbox_new ON outbox (id) WHERE error IS NULL;

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
    policy       text
) STRICT;
CREATE INDEX delivery_due ON delivery (endpoint_no, due_at, id) WHERE state < 2;
CREATE INDEX delivery_lease ON delivery (lease_until) WHERE state = 2;
CREATE INDEX delivery_expires ON delivery (expires_at, state) WHERE state < 2;
CREATE INDEX delivery_message ON delivery (message_id);

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
    note        text
) STRICT;
CREATE INDEX dead_letter_app ON dead_letter (app_no, id);
CREATE INDEX dead_letter_endpoint ON dead_letter (endpoint_no, id);
CREATE INDEX dead_letter_open ON dead_letter (id) WHERE resolved_at IS NULL;
CREATE INDEX dead_letter_message ON dead_letter (message_id);
CREATE INDEX dead_letter_age ON dead_letter (died_at);
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
    held_until    integer
) STRICT;
CREATE INDEX lane_failing ON lane (failing_since) WHERE failing_since IS NOT NULL;
CREATE INDEX lane_deleted ON lane (endpoint_no) WHERE status = 3;
CREATE INDEX lane_open ON lane (circuit) WHERE circuit > 0;

CREATE TABLE wake (
    id          integer PRIMARY KEY,
    endpoint_no integer NOT NULL,
    at          integer NOT NULL,
    floor       integer NOT NULL    -- the smallest due_at of the rows that the token announces
) STRICT;
CREATE INDEX wake_at ON wake (at);
CREATE INDEX wake_endpoint ON wake (endpoint_no);

CREATE TABLE lane_event (
    id          integer PRIMARY KEY AUTOINCREMENT,
    endpoint_no integer NOT NULL,
    app_no      integer NOT NULL,
    at          integer NOT NULL,
    kind        text NOT NULL,
    cause       text NOT NULL
) STRICT;
CREATE INDEX lane_event_endpoint ON lane_event (endpoint_no, id);
CREATE INDEX lane_event_at ON lane_event (at);

