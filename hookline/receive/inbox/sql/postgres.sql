-- The inbox in a PostgreSQL database. Its tables are in the application's own schema, so the key of an event and the
-- effect of the event are committed together. It is safe to run this SQL again.

-- The event keys that `once` has recorded. The primary key of the table decides which request with a key is the first.
CREATE TABLE IF NOT EXISTS hookline_inbox (
    scope    text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key)
);
CREATE INDEX IF NOT EXISTS hookline_inbox_first_at ON hookline_inbox (first_at);

-- The events that `accept` has stored for the worker. The row of a handled event keeps the event's key, but not its
-- body and headers.
CREATE TABLE IF NOT EXISTS hookline_inbox_event (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    event_type  text,
    body        bytea,
    headers     text,                                 -- JSON object of the stored headers
    state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'dead', 'resolved')),
    attempts    integer NOT NULL DEFAULT 0,
    due_at      timestamptz NOT NULL DEFAULT now(),   -- time of the next attempt; while claimed: end of the claim
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

-- One row for each copy of an event that `once` or `accept` recognized.
CREATE TABLE IF NOT EXISTS hookline_inbox_copy (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow  text COLLATE "C" NOT NULL,                  -- 'once', or 'worker' for events of `accept`
    scope text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS hookline_inbox_copy_at ON hookline_inbox_copy (at);

-- One row for each effect: a new key of `once`, or an event that the worker handled. There is no unique constraint on
-- purpose: two rows with the same flow, scope and key show that a copy had an effect too.
CREATE TABLE IF NOT EXISTS hookline_inbox_effect (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow  text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS hookline_inbox_effect_at ON hookline_inbox_effect (at);
CREATE INDEX IF NOT EXISTS hookline_inbox_effect_key ON hookline_inbox_effect (key, scope, flow, id);
