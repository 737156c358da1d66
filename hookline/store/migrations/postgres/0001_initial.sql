-- The schema `hookline`. Ids that people see are text (KSUID, COLLATE "C": they compare as bytes); `no` and `seq` are ours.
-- Deliberately no foreign keys into lane, delivery or from the hot tables: their share locks starve a hot lane.

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
    validated     boolean NOT NULL DEFAULT false,   -- payloads must fit the newest schema
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
    secrets       bytea NOT NULL,   -- sealed by the vault, bound to the endpoint's id
    headers       bytea,            -- sealed likewise
    metadata      jsonb NOT NULL DEFAULT '{}',
    policy        jsonb,
    revision      integer NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    deleted_at    timestamptz,
    on_death      text NOT NULL DEFAULT 'skip',   -- skip | block: what a dead delivery does to those behind it
    sealed_url    bytea   -- the whole URL where it is a secret (alert channels, operational webhooks); `url` then has only the host
);
CREATE UNIQUE INDEX endpoint_uid ON hookline.endpoint (app_no, uid) WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX endpoint_list ON hookline.endpoint (app_no, id) WHERE deleted_at IS NULL;
-- To count what an organization's or an application's endpoints did, deleted ones too, by time.
CREATE INDEX endpoint_app ON hookline.endpoint (app_no);
-- The relay asks for them on behalf of every other relay that is at work.
CREATE INDEX endpoint_fifo ON hookline.endpoint (app_no) WHERE ordering = 'fifo' AND deleted_at IS NULL;
-- The first five bytes of a sealed value name the key. These indexes find those of one key.
CREATE INDEX endpoint_secrets_key ON hookline.endpoint (substring(secrets FROM 1 FOR 5), id);
CREATE INDEX endpoint_headers_key ON hookline.endpoint (substring(headers FROM 1 FOR 5), id) WHERE headers IS NOT NULL;
CREATE INDEX endpoint_url_key ON hookline.endpoint (substring(sealed_url FROM 1 FOR 5), id) WHERE sealed_url IS NOT NULL;

-- History: partitioned by day; `hookline.make_partitions` keeps some days ahead, the default catches what it missed.
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
    payload      bytea,             -- as it came; NULL once expunged
    created_at   timestamptz NOT NULL,
    only_for     bigint,   -- an example for this endpoint alone, whatever others subscribe to
    trace        text,   -- of the publisher: traceparent, and tracestate after a space
    PRIMARY KEY (created_at, seq)
) PARTITION BY RANGE (created_at);
CREATE INDEX message_id ON hookline.message (id);
CREATE INDEX message_app ON hookline.message (app_no, id);

-- Uniqueness does not go through partitions: it has its own tables.
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
    answers    bytea   -- of a batch, which has no message_id
);
CREATE INDEX idempotency_age ON hookline.idempotency (expires_at);

-- include: outbox/sql/postgres.sql

CREATE INDEX outbox_copied ON hookline.outbox (source, event_id) WHERE source IS NOT NULL;

-- Open deliveries only, so that it stays small. Never partitioned by time: that made the claim 3 to 12 times slower.
CREATE TABLE hookline.delivery (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_no       bigint NOT NULL,
    endpoint_no  bigint NOT NULL,
    message_seq  bigint NOT NULL,
    message_at   timestamptz NOT NULL,          -- with message_seq: the message's key
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
    ordering_key text COLLATE "C"   -- the queue that it stands in: the message's key, '' for all of a fifo endpoint, NULL for none
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE INDEX delivery_due ON hookline.delivery (endpoint_no, due_at, id) WHERE state < 2;
CREATE INDEX delivery_lease ON hookline.delivery (lease_until) WHERE state = 2;
-- What expires is for the sweep alone, which asks for `expires_at`. Among many queued rows the few that wait are lost in the
-- statistics, and the claim would read all of those by this index and sort them, instead of the first ones by theirs.
CREATE INDEX delivery_expires ON hookline.delivery (expires_at) WHERE state < 2 AND expires_at IS NOT NULL;
CREATE INDEX delivery_message ON hookline.delivery (message_id);
-- What was sent again by hand: few.
CREATE INDEX delivery_manual ON hookline.delivery (app_no) WHERE trigger = 1;
-- One at a time, whatever goes wrong elsewhere. Deliveries without a key are in none of these.
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

-- Never partitioned, never dropped while unresolved.
CREATE TABLE hookline.dead_letter (
    id          bigint PRIMARY KEY,             -- the delivery's
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
-- Whose dead letters nobody has resolved: found one endpoint after the other, however many each has, and the oldest of each
-- without stepping over those that somebody has resolved.
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
    response_headers bytea,                     -- JSON; bytes, because endpoints send what they like
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
-- To list what failed without walking over what succeeded.
CREATE INDEX attempt_failed ON hookline.attempt (endpoint_no, id) WHERE outcome <> 'delivered';

-- One row per endpoint; fields as in model.Lane. Written only by claim, record, sweep and status changes, under its lock.
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
    pace          double precision,   -- starts a second; NULL: the endpoint has not complained
    pace_at       timestamptz,   -- when it last changed
    pace_top      double precision,   -- that was too much, the last time
    slowed_at     timestamptz,   -- the last complaint that slowed it
    app_rate      double precision,   -- the application's own limit; see app_pace
    turn_at       timestamptz   -- its turn among the lanes that wait for that limit
) WITH (fillfactor = 50);
CREATE INDEX lane_failing ON hookline.lane (failing_since) WHERE failing_since IS NOT NULL;
CREATE INDEX lane_deleted ON hookline.lane (endpoint_no) WHERE status = 3;
CREATE INDEX lane_open ON hookline.lane (circuit) WHERE circuit > 0;

CREATE TABLE hookline.wake (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_no bigint NOT NULL,
    at          timestamptz NOT NULL,
    floor       timestamptz NOT NULL,   -- the smallest due_at of the rows that the token announces
    keys        text,   -- queues in which somebody's turn may have come: JSON strings with commas between them; see order.written
    app_no      bigint   -- whose lane it wakes: a claim finds the next application that has something ready
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
    actor       text,   -- who changed the lane by hand; NULL: nobody, it came about by itself
    actor_name  text   -- keys of the API have a name
);
CREATE INDEX lane_event_endpoint ON hookline.lane_event (endpoint_no, id);
CREATE INDEX lane_event_at ON hookline.lane_event (at);

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
CREATE INDEX answer_key ON hookline.answer (substring(response FROM 1 FOR 5), (encode(key, 'hex') COLLATE "C"))
    WHERE response IS NOT NULL;

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

-- Outboxes in SQLite files, which are only read.
CREATE TABLE hookline.outbox_place (
    source  text PRIMARY KEY,
    row_id  bigint NOT NULL,
    row_uid text NOT NULL,
    at      timestamptz NOT NULL DEFAULT now()
);

-- The limit of an application, shared by its lanes. A claim locks it after the lanes, in the order of app_no.
CREATE TABLE hookline.app_pace (
    app_no  bigint PRIMARY KEY,
    tat     timestamptz,                         -- GCRA: the theoretical arrival time of the next start
    tail_at timestamptz                          -- the last turn that was given to a lane that waits
) WITH (fillfactor = 50);

CREATE TABLE hookline.pulse (
    grain   smallint NOT NULL,                   -- 0: of one process, as it came; 1: a minute of all of them
    at      timestamptz NOT NULL,                -- its end
    process text NOT NULL,                       -- a random name; '' for a minute of all
    data    bytea NOT NULL,                      -- JSON, observe.pulse.Pulse
    PRIMARY KEY (grain, at, process)
);

-- One row for each time that an alert fired.
CREATE TABLE hookline.alert (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL,
    subject     text NOT NULL,                   -- what it is about, where that is not the whole: an endpoint's id; else ''
    severity    text NOT NULL,                   -- warning | critical
    began_at    timestamptz NOT NULL,            -- what it tells of; it may have to last before it is told
    fired_at    timestamptz NOT NULL,
    clear_since timestamptz,                     -- it seems to be over
    resolved_at timestamptz,
    value       double precision NOT NULL,       -- the last that was seen
    threshold   double precision NOT NULL,
    text        text NOT NULL                    -- for people, likewise
);
CREATE UNIQUE INDEX alert_firing ON hookline.alert (name, subject) WHERE resolved_at IS NULL;
CREATE INDEX alert_fired ON hookline.alert (fired_at);

-- What will be an alert if it lasts.
CREATE TABLE hookline.alert_pending (
    name     text NOT NULL,
    subject  text NOT NULL,
    began_at timestamptz NOT NULL,
    PRIMARY KEY (name, subject)
);

-- Each time that the rules were asked, by whichever process.
CREATE TABLE hookline.alert_look (
    at      timestamptz PRIMARY KEY,
    backlog bigint NOT NULL                      -- deliveries that were due
);

-- The last depths that anybody counted, for the whole fleet.
CREATE TABLE hookline.depths (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    at   timestamptz NOT NULL,
    data bytea NOT NULL                          -- JSON, model.Depths
);

CREATE TABLE hookline.operator (
    name           text COLLATE "C" PRIMARY KEY,
    org_id         text COLLATE "C" NOT NULL,
    role           text NOT NULL,                    -- full | read
    password       text NOT NULL,                    -- scrypt, with its cost and salt
    created_at     timestamptz NOT NULL DEFAULT now(),
    sessions_after timestamptz NOT NULL DEFAULT now() -- those that began before are over
);

CREATE TABLE hookline.session (
    hash            bytea PRIMARY KEY,               -- of what the cookie holds
    org_id          text COLLATE "C" NOT NULL,
    app_no          bigint,                          -- the portal: this application alone
    role            text NOT NULL,
    operator        text COLLATE "C",
    key_id          text COLLATE "C",
    token           bytea,                           -- hash
    token_issued_at timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    seen_at         timestamptz NOT NULL DEFAULT now(), -- to the minute
    expires_at      timestamptz NOT NULL
);
CREATE INDEX session_age ON hookline.session (expires_at);
CREATE INDEX session_operator ON hookline.session (operator) WHERE operator IS NOT NULL;

CREATE TABLE hookline.guess (
    subject      bytea PRIMARY KEY,                  -- hash of a name, an address, or both
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
    endpoint_no bigint NOT NULL,                     -- 0: all of the application
    grain       smallint NOT NULL,                   -- seconds: 60, 900
    at          timestamptz NOT NULL,                -- its start
    delivered   bigint NOT NULL,
    retried     bigint NOT NULL,
    dead        bigint NOT NULL,
    PRIMARY KEY (app_no, endpoint_no, grain, at)
) WITH (fillfactor = 70);
CREATE INDEX activity_age ON hookline.activity (grain, at);

-- Of all applications of an organization: a sum, kept beside those of `activity`.
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

-- Values that the vault has sealed, and with which key: see store/sealed.py.
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

-- Makes the daily partitions of the history tables from `today` to `ahead` days later; how many were missing.
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
                -- The default partition already holds rows of that day; they stay there until retention takes them.
                NULL;
            END;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

-- Called in the transaction that adds work. It notifies only if somebody may sleep: NOTIFY takes a database-wide lock at commit.
-- Two locks. Sleepers share lock 1 while they sleep; whoever adds work shares lock 2 until it has committed. Each takes its own
-- first and then looks at the other's, by taking it exclusively for a moment. So of a sleeper and an announcer at least one sees
-- the other, and the announcer notifies or the sleeper polls; if neither did, the work was committed before the sleeper's look,
-- and the claim that follows finds it. Two looks at the same moment take each other for holders: one NOTIFY or one poll more.
-- One CASE: nothing can interrupt the session between the look and its end, and no announcer keeps lock 1.
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
