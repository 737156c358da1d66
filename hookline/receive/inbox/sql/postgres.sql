-- The inbox of a PostgreSQL database: in the application's own schema, because it commits with the application's own rows.
-- Safe to run again.

-- The keys of `once`. Who is first is decided here, by the primary key and nothing else.
CREATE TABLE IF NOT EXISTS hookline_inbox (
    scope    text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key)
);
CREATE INDEX IF NOT EXISTS hookline_inbox_first_at ON hookline_inbox (first_at);

-- Events of `accept`, for the worker. One that is done keeps its key, not its body.
CREATE TABLE IF NOT EXISTS hookline_inbox_event (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    event_type  text,
    body        bytea,
    headers     text,                                 -- JSON, those that were asked for
    state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'dead', 'resolved')),
    attempts    integer NOT NULL DEFAULT 0,
    due_at      timestamptz NOT NULL DEFAULT now(),   -- of an open one that is claimed: when the claim ends
    token       text,                                 -- of the claim
    reason      text,                                 -- why it is dead
    error       text,                                 -- of the last attempt
    accepted_at timestamptz NOT NULL DEFAULT now(),
    budget_from timestamptz NOT NULL DEFAULT now(),   -- accepted, or replayed
    finished_at timestamptz,
    UNIQUE (scope, key)
);
CREATE INDEX IF NOT EXISTS hookline_inbox_event_due ON hookline_inbox_event (due_at, id) WHERE state = 'open';
CREATE INDEX IF NOT EXISTS hookline_inbox_event_dead ON hookline_inbox_event (id) WHERE state = 'dead';
CREATE INDEX IF NOT EXISTS hookline_inbox_event_accepted_at ON hookline_inbox_event (accepted_at);
CREATE INDEX IF NOT EXISTS hookline_inbox_event_finished_at ON hookline_inbox_event (finished_at)
    WHERE state IN ('done', 'resolved');

-- Every copy that was stopped.
CREATE TABLE IF NOT EXISTS hookline_inbox_copy (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow  text COLLATE "C" NOT NULL,                  -- once, worker
    scope text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS hookline_inbox_copy_at ON hookline_inbox_copy (at);

-- Every effect. Nothing here is unique, on purpose: two rows of one key are the proof that something went wrong.
CREATE TABLE IF NOT EXISTS hookline_inbox_effect (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow  text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS hookline_inbox_effect_at ON hookline_inbox_effect (at);
CREATE INDEX IF NOT EXISTS hookline_inbox_effect_key ON hookline_inbox_effect (key, scope, flow, id);
