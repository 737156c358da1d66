-- Who may sign in, who has, who guesses, who did what, and what endpoints did: see access.py and model/activity.py.

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
