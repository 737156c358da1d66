-- The inbox in a PostgreSQL database. Its tables are in the application's own schema: key and effect commit together.
-- It is safe to run this again.

-- The keys of `once`. The primary key alone decides which request is the first.
CREATE TABLE IF NOT EXISTS hookline_inbox (
    scope    text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key)
);
CREATE INDEX IF NOT EXISTS hookline_inbox_first_at ON hookline_inbox (first_at);

-- The events of `accept`, for the worker. A handled event keeps its key, but not its body.
CREATE TABLE IF NOT EXISTS hookline_inbox_event (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    event_type  text,
    body        bytea,
    headers     text,                                 -- JSON object of the stored headers
    state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'dead', 'resolved')),
    attempts    integer NOT NULL DEFAULT 0,
    due_at      timestamptz NOT NULL DEFAULT now(),   -- time of the next attempt; of a claimed event: end of the claim
    token       text,                                 -- the token of the claim
    reason      text,                                 -- why the event is dead
    error       text,                                 -- the error of the last attempt
    accepted_at timestamptz NOT NULL DEFAULT now(),
    budget_from timestamptz NOT NULL DEFAULT now(),   -- start of the time budget: time of accept or replay
    finished_at timestamptz,
    UNIQUE (scope, key)
);
CREATE INDEX IF NOT EXISTS hookline_inbox_event_due ON hookline_inbox_event (due_at, id) WHERE state = 'open';
CREATE INDEX IF NOT EXISTS hookline_inbox_event_dead ON hookline_inbox_event (id) WHERE state = 'dead';
CREATE INDEX IF NOT EXISTS hookline_inbox_event_accepted_at ON hookline_inbox_event (accepted_at);
CREATE INDEX IF NOT EXISTS hookline_inbox_event_finished_at ON hookline_inbox_event (finished_at)
    WHERE state IN ('done', 'resolved');

-- Every duplicate that was stopped.
CREATE TABLE IF NOT EXISTS hookline_inbox_copy (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow  text COLLATE "C" NOT NULL,                  -- once or worker
    scope text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS hookline_inbox_copy_at ON hookline_inbox_copy (at);

-- Every effect. There is no unique key on purpose: two rows with one key show that a duplicate had an effect.
CREATE TABLE IF NOT EXISTS hookline_inbox_effect (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow  text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS hookline_inbox_effect_at ON hookline_inbox_effect (at);
CREATE INDEX IF NOT EXISTS hookline_inbox_effect_key ON hookline_inbox_effect (key, scope, flow, id);
