-- The schema `hookline`. Public ids are text (KSUID, COLLATE "C": they compare as bytes). `no` and `seq` are internal.
-- There are deliberately no foreign keys that reference lane or delivery, and none in busy tables: the check of a
-- foreign key takes a share lock, and many share locks on a busy lane would delay the transactions that update it.

CREATE TABLE hookline.organization (
    id                 text COLLATE "C" PRIMARY KEY,
    name               text NOT NULL,
    tokens_valid_after timestamptz,
    created_at         timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE hookline.application (
    no                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id                 text COLLATE "C" NOT NULL UNIQUE,
    org_id             text COLLATE "C" NOT NULL REFERENCES hookline.organization (id),
    uid                text COLLATE "C",
    name               text NOT NULL,
    throttle_rate      integer,
    metadata           jsonb NOT NULL DEFAULT '{}',
    tokens_valid_after timestamptz,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    deleted_at         timestamptz
);
CREATE UNIQUE INDEX application_uid ON hookline.application (org_id, uid) WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX application_list ON hookline.application (org_id, id) WHERE deleted_at IS NULL;
CREATE INDEX application_org ON hookline.application (org_id);

CREATE TABLE hookline.event_type (
    org_id        text COLLATE "C" NOT NULL REFERENCES hookline.organization (id),
    name          text COLLATE "C" NOT NULL,
    description   text NOT NULL DEFAULT '',
    archived      boolean NOT NULL DEFAULT false,
    deprecated    boolean NOT NULL DEFAULT false,
    schemas       jsonb,
    feature_flags text[] NOT NULL DEFAULT '{}',
    group_name    text,
    policy        jsonb,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    validated     boolean NOT NULL DEFAULT false,   -- payloads must match the newest schema
    PRIMARY KEY (org_id, name)
);

CREATE TABLE hookline.endpoint (
    no            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            text COLLATE "C" NOT NULL UNIQUE,
    app_no        bigint NOT NULL REFERENCES hookline.application (no),
    uid           text COLLATE "C",
    url           text NOT NULL,
    description   text NOT NULL DEFAULT '',
    version       integer NOT NULL DEFAULT 1,
    event_types   text[],
    channels      text[],
    status        smallint NOT NULL DEFAULT 0,
    status_reason text,
    throttle_rate double precision,
    concurrency   integer,
    ordering      text NOT NULL DEFAULT 'key',
    scheme        text NOT NULL DEFAULT 'standard',
    -- The vault encrypts both values. `secrets` decrypts only with the endpoint's id as associated data, and `headers`
    -- only with `<endpoint id>/headers`.
    secrets       bytea NOT NULL,
    headers       bytea,
    metadata      jsonb NOT NULL DEFAULT '{}',
    policy        jsonb,
    revision      integer NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    deleted_at    timestamptz,
    on_death      text NOT NULL DEFAULT 'skip',   -- skip | block: whether a dead delivery blocks later ones of its queue
    sealed_url    bytea   -- the whole URL if it is a secret (alert channels, operational webhooks); `url` then has only the host
);
CREATE UNIQUE INDEX endpoint_uid ON hookline.endpoint (app_no, uid) WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX endpoint_list ON hookline.endpoint (app_no, id) WHERE deleted_at IS NULL;
-- Finds the endpoints of an organization or an application, deleted ones too, for counting.
CREATE INDEX endpoint_app ON hookline.endpoint (app_no);
-- The relay looks for fifo endpoints, to know which outbox rows must keep their order.
CREATE INDEX endpoint_fifo ON hookline.endpoint (app_no) WHERE ordering = 'fifo' AND deleted_at IS NULL;
-- The first five bytes of an encrypted value name the key. These indexes find the values of one key.
CREATE INDEX endpoint_secrets_key ON hookline.endpoint (substring(secrets FROM 1 FOR 5), id);
CREATE INDEX endpoint_headers_key ON hookline.endpoint (substring(headers FROM 1 FOR 5), id) WHERE headers IS NOT NULL;
CREATE INDEX endpoint_url_key ON hookline.endpoint (substring(sealed_url FROM 1 FOR 5), id) WHERE sealed_url IS NOT NULL;

-- History is partitioned by day. `hookline.make_partitions` creates partitions for some days ahead. The default
-- partition stores the rows of days that have no partition.
CREATE TABLE hookline.message (
    seq          bigint GENERATED ALWAYS AS IDENTITY,
    id           text COLLATE "C" NOT NULL,
    app_no       bigint NOT NULL,
    event_type   text NOT NULL,
    event_id     text,
    channels     text[],
    tags         text[],
    ordering_key text,
    deliver_at   timestamptz,
    policy       jsonb,
    payload      bytea,             -- the original bytes; NULL after it was expunged
    created_at   timestamptz NOT NULL,
    only_for     bigint,   -- the endpoint that a test message is for; NULL: not a test message
    trace        text,   -- the publisher's traceparent, and tracestate after a space
    PRIMARY KEY (created_at, seq)
) PARTITION BY RANGE (created_at);
CREATE INDEX message_id ON hookline.message (id);
CREATE INDEX message_app ON hookline.message (app_no, id);

-- Unique indexes cannot span partitions, so separate tables keep event ids and idempotency keys unique.
CREATE TABLE hookline.event_id (
    app_no     bigint NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (app_no, event_id)
);
CREATE INDEX event_id_age ON hookline.event_id (created_at);

CREATE TABLE hookline.idempotency (
    key        bytea PRIMARY KEY,
    body       bytea NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    answers    bytea   -- the stored answers, if the request was a batch; message_id is then ''
);
CREATE INDEX idempotency_age ON hookline.idempotency (expires_at);

-- include: outbox/sql/postgres.sql

CREATE INDEX outbox_copied ON hookline.outbox (source, event_id) WHERE source IS NOT NULL;

-- Only open deliveries, so that the table stays small. Not partitioned by time, because that made the claim 3 to 12
-- times slower.
CREATE TABLE hookline.delivery (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_no       bigint NOT NULL,
    endpoint_no  bigint NOT NULL,
    message_seq  bigint NOT NULL,
    message_at   timestamptz NOT NULL,          -- with message_seq: the key of the message
    message_id   text COLLATE "C" NOT NULL,
    event_type   text NOT NULL,
    state        smallint NOT NULL DEFAULT 0,   -- states.DeliveryState
    attempts     integer NOT NULL DEFAULT 0,
    sent         integer NOT NULL DEFAULT 0,
    trigger      smallint NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    lease_until  timestamptz,
    claim        bigint,
    counted      boolean NOT NULL DEFAULT false,
    last_delay   real NOT NULL DEFAULT 0,
    last_status  integer,
    policy       jsonb,
    -- The delivery's queue: the message's ordering key, or '' at a fifo endpoint. NULL: the order does not matter.
    ordering_key text COLLATE "C"
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE INDEX delivery_due ON hookline.delivery (endpoint_no, due_at, id) WHERE state < 2;
CREATE INDEX delivery_lease ON hookline.delivery (lease_until) WHERE state = 2;
-- Only the sweep uses this index, because only its query has a condition on `expires_at`. Without `IS NOT NULL`, the
-- claim could use the index too. If most open deliveries are in the state QUEUED, the statistics understate the number
-- of rows with state < 2. The claim would then read all of those rows by this index and sort them, instead of reading
-- the first ones by `delivery_due`.
CREATE INDEX delivery_expires ON hookline.delivery (expires_at) WHERE state < 2 AND expires_at IS NOT NULL;
CREATE INDEX delivery_message ON hookline.delivery (message_id);
-- Finds deliveries of trigger 1: replays, resends and test messages. They are few.
CREATE INDEX delivery_manual ON hookline.delivery (app_no) WHERE trigger = 1;
-- The database enforces at most one active delivery per queue. Deliveries without an ordering key are not in these
-- indexes.
CREATE UNIQUE INDEX delivery_active ON hookline.delivery (endpoint_no, ordering_key) WHERE state < 3 AND ordering_key IS NOT NULL;
CREATE INDEX delivery_queued ON hookline.delivery (endpoint_no, ordering_key, message_seq, id) WHERE state = 6;
CREATE INDEX delivery_queued_expires ON hookline.delivery (expires_at) WHERE state = 6;

CREATE TABLE hookline.delivery_done (
    id          bigint NOT NULL,
    app_no      bigint NOT NULL,
    endpoint_no bigint NOT NULL,
    message_seq bigint NOT NULL,
    message_at  timestamptz NOT NULL,
    message_id  text COLLATE "C" NOT NULL,
    event_type  text NOT NULL,
    attempts    integer NOT NULL,
    sent        integer NOT NULL,
    finished_at timestamptz NOT NULL
) PARTITION BY RANGE (finished_at);
CREATE INDEX delivery_done_message ON hookline.delivery_done (message_id);

-- Not partitioned, because the dead letters of one day are not deleted together: retention deletes a resolved dead
-- letter after `retention_days`, and every dead letter after `dead_retention_days`.
CREATE TABLE hookline.dead_letter (
    id          bigint PRIMARY KEY,             -- the delivery's id
    app_no      bigint NOT NULL,
    endpoint_no bigint NOT NULL,
    message_seq bigint NOT NULL,
    message_at  timestamptz NOT NULL,
    message_id  text COLLATE "C" NOT NULL,
    event_type  text NOT NULL,
    attempts    integer NOT NULL,
    sent        integer NOT NULL,
    policy      jsonb,
    last_status integer,
    reason      text NOT NULL,
    detail      text NOT NULL,
    died_at     timestamptz NOT NULL,
    resolved_at timestamptz,
    note        text,
    ordering_key text COLLATE "C"
);
CREATE INDEX dead_letter_app ON hookline.dead_letter (app_no, died_at, id);
CREATE INDEX dead_letter_endpoint ON hookline.dead_letter (endpoint_no, died_at, id);
CREATE INDEX dead_letter_open ON hookline.dead_letter (died_at, id) WHERE resolved_at IS NULL;
CREATE INDEX dead_letter_message ON hookline.dead_letter (message_id);
CREATE INDEX dead_letter_age ON hookline.dead_letter (died_at, id);
CREATE INDEX dead_letter_blocks ON hookline.dead_letter (endpoint_no, ordering_key, message_seq)
    WHERE ordering_key IS NOT NULL AND resolved_at IS NULL;
-- Finds the endpoints with unresolved dead letters without reading all of their dead letters. Also finds the oldest
-- unresolved dead letter of an endpoint.
CREATE INDEX dead_letter_unresolved ON hookline.dead_letter (app_no, endpoint_no, died_at) WHERE resolved_at IS NULL;
CREATE INDEX dead_letter_keeps ON hookline.dead_letter (message_at);

CREATE TABLE hookline.attempt (
    id               text COLLATE "C" NOT NULL,
    delivery_id      bigint NOT NULL,
    app_no           bigint NOT NULL,
    endpoint_no      bigint NOT NULL,
    message_id       text COLLATE "C" NOT NULL,
    event_type       text NOT NULL,
    number           integer NOT NULL,
    trigger          smallint NOT NULL,
    outcome          text NOT NULL,             -- delivered | retry | dead
    probe            boolean NOT NULL,
    started_at       timestamptz NOT NULL,
    status_code      integer,
    error            text,
    detail           text NOT NULL,
    address          text NOT NULL,
    response_headers bytea,                     -- JSON as bytes, because endpoints may send invalid text
    response_body    bytea,
    truncated        boolean NOT NULL,
    dns_us           integer NOT NULL,
    connect_us       integer NOT NULL,
    tls_us           integer NOT NULL,
    first_byte_us    integer NOT NULL,
    total_us         integer NOT NULL,
    recorded_at      timestamptz NOT NULL
) PARTITION BY RANGE (recorded_at);
CREATE INDEX attempt_message ON hookline.attempt (message_id);
CREATE INDEX attempt_endpoint ON hookline.attempt (endpoint_no, id);
-- Lists failed attempts without reading the successful ones.
CREATE INDEX attempt_failed ON hookline.attempt (endpoint_no, id) WHERE outcome <> 'delivered';

-- One row per endpoint; fields as in `model.Lane`. Only claim, record, sweep and status changes write it, under its
-- lock.
CREATE TABLE hookline.lane (
    endpoint_no   bigint PRIMARY KEY,
    app_no        bigint NOT NULL,
    status        smallint NOT NULL DEFAULT 0,
    revision      integer NOT NULL DEFAULT 1,
    circuit       smallint NOT NULL DEFAULT 0,
    epoch         integer NOT NULL DEFAULT 0,
    failures      integer NOT NULL DEFAULT 0,
    failing_since timestamptz,
    trips         integer NOT NULL DEFAULT 0,
    opened_at     timestamptz,
    probe_at      timestamptz,
    "window"      integer,
    window_at     timestamptz,
    in_flight     integer NOT NULL DEFAULT 0,
    waiting_floor timestamptz,
    throttle_rate double precision,
    concurrency   integer,
    tat           timestamptz,
    held_until    timestamptz,
    -- Maximum requests per second; NULL: no limit. Hookline sets the pace after a 429, after a 503 with Retry-After,
    -- and after a failure under load: the circuit opened while the lane recovered or had a pace, and its rate was high.
    pace          double precision,
    -- When the pace last changed. A successful probe of an open circuit sets it to three minutes after the probe, so
    -- that the pace does not rise before that time.
    pace_at       timestamptz,
    -- The rate that was too high, in requests per second. After a failure under load: half of the rate at which the
    -- endpoint failed. NULL: unknown.
    pace_top      double precision,
    -- The later of two times: when the pace was last lowered, and the last successful probe of an open circuit. A
    -- success ten minutes or more after this time removes the pace.
    slowed_at     timestamptz,
    app_rate      double precision,   -- the rate limit of the lane's application in requests per second; see app_pace
    turn_at       timestamptz   -- when the lane may start its next request under `app_rate`; see rules/claim/budgets.py
) WITH (fillfactor = 50);
CREATE INDEX lane_failing ON hookline.lane (failing_since) WHERE failing_since IS NOT NULL;
CREATE INDEX lane_deleted ON hookline.lane (endpoint_no) WHERE status = 3;
CREATE INDEX lane_open ON hookline.lane (circuit) WHERE circuit > 0;

CREATE TABLE hookline.wake (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_no bigint NOT NULL,
    at          timestamptz NOT NULL,
    floor       timestamptz NOT NULL,   -- the smallest due_at of the deliveries that the wake token announces
    -- Queues that a claim must check for a delivery to send: JSON strings separated by commas; see rules/ordering.py.
    keys        text,
    app_no      bigint   -- the lane's application; a claim uses it to find the next application with due wake tokens
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX wake_at ON hookline.wake (at);
CREATE INDEX wake_endpoint ON hookline.wake (endpoint_no);
CREATE INDEX wake_app ON hookline.wake (app_no, at);

CREATE TABLE hookline.lane_event (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_no bigint NOT NULL,
    app_no      bigint NOT NULL,
    at          timestamptz NOT NULL,
    kind        text NOT NULL,
    cause       text NOT NULL,
    actor       text,   -- the user who changed the lane by hand; NULL: the system changed it
    actor_name  text   -- name of the API key, if the actor is an API key
);
CREATE INDEX lane_event_endpoint ON hookline.lane_event (endpoint_no, id);
CREATE INDEX lane_event_at ON hookline.lane_event (at);

CREATE TABLE hookline.api_key (
    id           text COLLATE "C" PRIMARY KEY,
    org_id       text COLLATE "C" NOT NULL REFERENCES hookline.organization (id),
    app_no       bigint REFERENCES hookline.application (no),   -- NULL: all applications
    name         text NOT NULL,
    scope        text NOT NULL,                                 -- full | publish | read
    hash         bytea NOT NULL UNIQUE,
    hint         text NOT NULL,                                 -- the key's last characters, to tell keys apart
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);
CREATE INDEX api_key_list ON hookline.api_key (org_id, id) WHERE revoked_at IS NULL;

-- Revoked tokens, until they would have expired.
CREATE TABLE hookline.revoked_token (
    hash       bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE INDEX revoked_token_age ON hookline.revoked_token (expires_at);

-- Stored responses to POSTs with an Idempotency-Key. For POSTs that publish messages, see `idempotency`.
CREATE TABLE hookline.answer (
    key        bytea PRIMARY KEY,
    body       bytea NOT NULL,
    claim      bigint,            -- a random number that identifies the request with the lease
    held_until timestamptz,       -- end of the lease; then another request may take the key
    status     integer,           -- NULL: not answered yet
    response   bytea,
    expires_at timestamptz NOT NULL
);
CREATE INDEX answer_age ON hookline.answer (expires_at);
CREATE INDEX answer_key ON hookline.answer (substring(response FROM 1 FOR 5), (encode(key, 'hex') COLLATE "C"))
    WHERE response IS NOT NULL;

-- Long work that a user started and that workers do in steps, across restarts.
CREATE TABLE hookline.task (
    id          text COLLATE "C" PRIMARY KEY,
    org_id      text COLLATE "C" NOT NULL,
    app_no      bigint,
    endpoint_no bigint,
    kind        text NOT NULL,
    status      text NOT NULL,    -- running | finished | failed | canceled
    params      jsonb NOT NULL,
    done        bigint NOT NULL DEFAULT 0,
    skipped     bigint NOT NULL DEFAULT 0,   -- rows that matched and were left unchanged
    total       bigint,            -- rows that matched at the start; NULL: too many to count
    position    text,              -- where the next step begins; NULL: at the start
    error       text,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);
CREATE INDEX task_open ON hookline.task (updated_at, id) WHERE status = 'running';
CREATE INDEX task_list ON hookline.task (org_id, id);
CREATE INDEX task_app ON hookline.task (app_no, id);
CREATE INDEX task_age ON hookline.task (updated_at) WHERE status <> 'running';

-- The last row that the relay has read from each outbox in a SQLite file. It is stored here, because Hookline does not
-- write to these files.
CREATE TABLE hookline.outbox_place (
    source  text PRIMARY KEY,
    row_id  bigint NOT NULL,
    row_uid text NOT NULL,
    at      timestamptz NOT NULL DEFAULT now()
);

-- The state of an application's rate limit, which its lanes share. A claim locks these rows after the rows of the
-- lanes, in the order of app_no.
CREATE TABLE hookline.app_pace (
    app_no  bigint PRIMARY KEY,
    tat     timestamptz,                         -- GCRA: the theoretical arrival time of the next start
    tail_at timestamptz                          -- the latest `turn_at` given to a waiting lane
) WITH (fillfactor = 50);

CREATE TABLE hookline.pulse (
    grain   smallint NOT NULL,                   -- 0: a pulse of one process; 1: the sum of all pulses of one minute
    at      timestamptz NOT NULL,                -- the end of the interval
    process text NOT NULL,                       -- a random name of the process; '' if grain is 1
    data    bytea NOT NULL,                      -- JSON, model.pulses.Pulse
    PRIMARY KEY (grain, at, process)
);

-- One row for each time that an alert fired.
CREATE TABLE hookline.alert (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL,
    subject     text NOT NULL,                   -- the id of the endpoint that the alert is about; '' for the whole system
    severity    text NOT NULL,                   -- warning | critical
    began_at    timestamptz NOT NULL,            -- when the condition began; the alert may fire later
    fired_at    timestamptz NOT NULL,
    clear_since timestamptz,                     -- since when the condition no longer holds
    resolved_at timestamptz,
    value       double precision NOT NULL,       -- the last measured value
    threshold   double precision NOT NULL,
    text        text NOT NULL                    -- a description for users
);
CREATE UNIQUE INDEX alert_firing ON hookline.alert (name, subject) WHERE resolved_at IS NULL;
CREATE INDEX alert_fired ON hookline.alert (fired_at);

-- Conditions that become alerts if they last.
CREATE TABLE hookline.alert_pending (
    name     text NOT NULL,
    subject  text NOT NULL,
    began_at timestamptz NOT NULL,
    PRIMARY KEY (name, subject)
);

-- The times at which any process checked the alert rules.
CREATE TABLE hookline.alert_look (
    at      timestamptz PRIMARY KEY,
    backlog bigint NOT NULL                      -- due deliveries at that time
);

-- The numbers of waiting deliveries and outbox rows, as some process last counted them. All processes use this cache.
CREATE TABLE hookline.depths (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    at   timestamptz NOT NULL,
    data bytea NOT NULL                          -- JSON, model.Depths
);

CREATE TABLE hookline.operator (
    name           text COLLATE "C" PRIMARY KEY,
    org_id         text COLLATE "C" NOT NULL,
    role           text NOT NULL,                    -- full | read
    password       text NOT NULL,                    -- scrypt hash with its cost and salt
    created_at     timestamptz NOT NULL DEFAULT now(),
    sessions_after timestamptz NOT NULL DEFAULT now() -- sessions that began before this are invalid
);

CREATE TABLE hookline.session (
    hash            bytea PRIMARY KEY,               -- hash of the cookie's value
    org_id          text COLLATE "C" NOT NULL,
    app_no          bigint,                          -- the application of a portal session
    role            text NOT NULL,
    operator        text COLLATE "C",
    key_id          text COLLATE "C",
    -- Hash of the token with which the user signed in: an API token, or the token in a portal link or a sign-in link.
    -- NULL: the user signed in with a password or an API key.
    token           bytea,
    token_issued_at timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    seen_at         timestamptz NOT NULL DEFAULT now(), -- time of the last request, accurate to a minute
    expires_at      timestamptz NOT NULL
);
CREATE INDEX session_age ON hookline.session (expires_at);
CREATE INDEX session_operator ON hookline.session (operator) WHERE operator IS NOT NULL;

-- Failed guesses of passwords and tokens. Passwords are counted by operator name, by IP network, by both together, and
-- by name and browser. Tokens are counted by IP network.
CREATE TABLE hookline.guess (
    subject      bytea PRIMARY KEY,                  -- keyed hash of the name, the network, both, or name and browser
    failures     integer NOT NULL,
    since        timestamptz NOT NULL,
    seen_at      timestamptz NOT NULL,
    locked_until timestamptz
);
CREATE INDEX guess_age ON hookline.guess (seen_at);

CREATE TABLE hookline.audit (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     text COLLATE "C" NOT NULL,
    app_id     text COLLATE "C",
    at         timestamptz NOT NULL DEFAULT now(),
    actor      text NOT NULL,
    actor_name text,
    action     text NOT NULL,
    subject    text NOT NULL,
    detail     text NOT NULL,
    address    text NOT NULL
);
CREATE INDEX audit_list ON hookline.audit (org_id, id);
CREATE INDEX audit_age ON hookline.audit (at);

CREATE TABLE hookline.activity (
    app_no      bigint NOT NULL,
    endpoint_no bigint NOT NULL,                     -- 0: the whole application
    grain       smallint NOT NULL,                   -- seconds: 60 or 900
    at          timestamptz NOT NULL,                -- the start of the interval
    delivered   bigint NOT NULL,
    retried     bigint NOT NULL,
    dead        bigint NOT NULL,
    PRIMARY KEY (app_no, endpoint_no, grain, at)
) WITH (fillfactor = 70);
CREATE INDEX activity_age ON hookline.activity (grain, at);

-- The sums of `activity` over all applications of an organization. Both tables are written together.
CREATE TABLE hookline.org_activity (
    org_id    text COLLATE "C" NOT NULL,
    grain     smallint NOT NULL,
    at        timestamptz NOT NULL,
    delivered bigint NOT NULL,
    retried   bigint NOT NULL,
    dead      bigint NOT NULL,
    PRIMARY KEY (org_id, grain, at)
) WITH (fillfactor = 70);
CREATE INDEX org_activity_age ON hookline.org_activity (grain, at);

-- All encrypted values: see store/plans/sealed_values.py. `place` is the table and the column of a value, and `row` is
-- the id of its row. `head` is the first five bytes of the value, which name the encryption key. `sealed` is the value.
-- No SELECT of the view has a WHERE, because the planner would then sort all values for each batch. The head of a
-- missing value is NULL, so queries that select a range of heads exclude missing values.
CREATE VIEW hookline.sealed_value (place, head, "row", sealed) AS
SELECT 'endpoint.secrets'::text, substring(secrets FROM 1 FOR 5), id, secrets FROM hookline.endpoint
UNION ALL
SELECT 'endpoint.headers'::text, substring(headers FROM 1 FOR 5), id, headers FROM hookline.endpoint
UNION ALL
SELECT 'endpoint.sealed_url'::text, substring(sealed_url FROM 1 FOR 5), id, sealed_url FROM hookline.endpoint
UNION ALL
SELECT 'answer.response'::text, substring(response FROM 1 FOR 5), encode(key, 'hex') COLLATE "C", response FROM hookline.answer;

-- Secrets that verify tokens but no longer sign new tokens. `since` is when Hookline first saw that the secret no
-- longer signs. `seen_at` is when a token of the secret was last used.
CREATE TABLE hookline.older_secret (
    id      bytea PRIMARY KEY,                        -- hash of the secret
    since   timestamptz NOT NULL,
    seen_at timestamptz
);

-- A parameter of `record_plain` for one delivery: its id and claim, and those values of the attempt that are not in the
-- delivery's row.
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

-- Creates the missing daily partitions of the history tables from `today` to `ahead` days later, and returns their
-- number.
CREATE FUNCTION hookline.make_partitions(today date, ahead integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    made integer := 0;
    parent text;
    day date;
    name text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['message', 'delivery_done', 'attempt'] LOOP
        FOR day IN SELECT today + n FROM generate_series(0, ahead) AS n LOOP
            name := parent || '_' || to_char(day, 'YYYYMMDD');
            CONTINUE WHEN to_regclass('hookline.' || name) IS NOT NULL;
            BEGIN
                EXECUTE format('CREATE TABLE hookline.%I PARTITION OF hookline.%I FOR VALUES FROM (%L) TO (%L)',
                               name, parent, day::text || ' 00:00+00', (day + 1)::text || ' 00:00+00');
                made := made + 1;
            EXCEPTION WHEN check_violation THEN
                -- The default partition already has rows of that day. They stay there until retention deletes them.
                NULL;
            END;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

-- Called in the transaction that adds work. It notifies only if a worker may be asleep, because NOTIFY takes a
-- database-wide lock at commit. There are two locks. Sleepers share lock 1 while they sleep. Transactions that add work
-- share lock 2 until they commit. A sleeper, and the announcer that calls this function, each take their own lock
-- first. Then each checks the other's lock by trying to take it exclusively for a moment. An announcer that sees lock 1
-- notifies. A sleeper that sees lock 2 polls. If neither sees the other, the work was committed before the sleeper's
-- check, and the claim that the worker makes before it sleeps finds the work. Two simultaneous checks may see each
-- other's lock: that costs one extra NOTIFY or poll. One CASE takes and releases lock 1, so that no interrupt in
-- between leaves lock 1 held.
CREATE FUNCTION hookline.announce() RETURNS void LANGUAGE sql AS $$
    SELECT CASE WHEN CASE WHEN NOT pg_try_advisory_xact_lock_shared(1214541, 2) THEN true
                          WHEN NOT pg_try_advisory_lock(1214541, 1) THEN true
                          ELSE NOT pg_advisory_unlock(1214541, 1) END
                THEN pg_notify('hookline_wake', '') END
$$;

CREATE TABLE hookline.message_default PARTITION OF hookline.message DEFAULT;
CREATE TABLE hookline.delivery_done_default PARTITION OF hookline.delivery_done DEFAULT;
CREATE TABLE hookline.attempt_default PARTITION OF hookline.attempt DEFAULT;
SELECT hookline.make_partitions((now() AT TIME ZONE 'UTC')::date, 3);
