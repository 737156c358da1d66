-- Who may sign in, who has, who guesses, who did what, and what endpoints did: see access.py and model/activity.py.

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
