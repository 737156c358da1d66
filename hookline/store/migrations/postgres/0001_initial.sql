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
    ordering      text NOT NULL DEFAULT 'none',
    scheme        text NOT NULL DEFAULT 'standard',
    secrets       bytea NOT NULL,   -- sealed by the vault, bound to the endpoint's id
    headers       bytea,            -- sealed likewise
    metadata      jsonb NOT NULL DEFAULT '{}',
    policy        jsonb,
    revision      integer NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    deleted_at    timestamptz
);
CREATE UNIQUE INDEX endpoint_uid ON hookline.endpoint (app_no, uid) WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX endpoint_list ON hookline.endpoint (app_no, id) WHERE deleted_at IS NULL;

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
    expires_at timestamptz NOT NULL
);
CREATE INDEX idempotency_age ON hookline.idempotency (expires_at);

-- May be there already: an application can have set up its outbox first.
CREATE TABLE IF NOT EXISTS hookline.outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id       text,              -- NULL: the only organization, or the one `app` is an id of
    app          text NOT NULL,     -- id or uid
    event_type   text NOT NULL,
    payload      bytea NOT NULL,
    event_id     text,
    channels     text[],
    tags         text[],
    ordering_key text,
    deliver_at   timestamptz,
    policy       jsonb,
    error        text,              -- set aside, and why
    created_at   timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX IF NOT EXISTS outbox_new ON hookline.outbox (id) WHERE error IS NULL;

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
    policy       jsonb
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE INDEX delivery_due ON hookline.delivery (endpoint_no, due_at, id) WHERE state < 2;
CREATE INDEX delivery_lease ON hookline.delivery (lease_until) WHERE state = 2;
CREATE INDEX delivery_expires ON hookline.delivery (expires_at) WHERE state < 2;
CREATE INDEX delivery_message ON hookline.delivery (message_id);

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
    note        text
);
CREATE INDEX dead_letter_app ON hookline.dead_letter (app_no, id) WHERE resolved_at IS NULL;
CREATE INDEX dead_letter_endpoint ON hookline.dead_letter (endpoint_no, id);
CREATE INDEX dead_letter_open ON hookline.dead_letter (id) WHERE resolved_at IS NULL;
CREATE INDEX dead_letter_message ON hookline.dead_letter (message_id);
CREATE INDEX dead_letter_age ON hookline.dead_letter (died_at);
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
    held_until    timestamptz
) WITH (fillfactor = 50);
CREATE INDEX lane_failing ON hookline.lane (failing_since) WHERE failing_since IS NOT NULL;
CREATE INDEX lane_deleted ON hookline.lane (endpoint_no) WHERE status = 3;

CREATE TABLE hookline.wake (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_no bigint NOT NULL,
    at          timestamptz NOT NULL,
    floor       timestamptz NOT NULL    -- the smallest due_at of the rows that the token announces
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX wake_at ON hookline.wake (at);
CREATE INDEX wake_endpoint ON hookline.wake (endpoint_no);

CREATE TABLE hookline.lane_event (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_no bigint NOT NULL,
    app_no      bigint NOT NULL,
    at          timestamptz NOT NULL,
    kind        text NOT NULL,
    cause       text NOT NULL
);
CREATE INDEX lane_event_endpoint ON hookline.lane_event (endpoint_no, id);
CREATE INDEX lane_event_at ON hookline.lane_event (at);

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
