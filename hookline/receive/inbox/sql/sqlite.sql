-- The inbox of a SQLite database: in the application's own file, because it commits with the application's own rows. Instants
-- are microseconds since 1970. Safe to run again.

-- The keys of `once`. Who is first is decided here, by the primary key and nothing else.
CREATE TABLE IF NOT EXISTS hookline_inbox (
    scope    text NOT NULL,
    key      text NOT NULL,
    first_at integer NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS integer) * 1000000),
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS hookline_inbox_first_at ON hookline_inbox (first_at);

-- Events of `accept`, for the worker. One that is done keeps its key, not its body.
CREATE TABLE IF NOT EXISTS hookline_inbox_event (
    id          integer PRIMARY KEY AUTOINCREMENT,
    scope       text NOT NULL,
    key         text NOT NULL,
    event_type  text,
    body        blob,
    headers     text,                                 -- JSON, those that were asked for
    state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'dead', 'resolved')),
    attempts    integer NOT NULL DEFAULT 0,
    due_at      integer NOT NULL,                     -- of an open one that is claimed: when the claim ends
    token       text,                                 -- of the claim
    reason      text,                                 -- why it is dead
    error       text,                                 -- of the last attempt
    accepted_at integer NOT NULL,
    budget_from integer NOT NULL,                     -- accepted, or replayed
    finished_at integer,
    UNIQUE (scope, key)
);
CREATE INDEX IF NOT EXISTS hookline_inbox_event_due ON hookline_inbox_event (due_at, id) WHERE state = 'open';
CREATE INDEX IF NOT EXISTS hookline_inbox_event_dead ON hookline_inbox_event (id) WHERE state = 'dead';
CREATE INDEX IF NOT EXISTS hookline_inbox_event_accepted_at ON hookline_inbox_event (accepted_at);
CREATE INDEX IF NOT EXISTS hookline_inbox_event_finished_at ON hookline_inbox_event (finished_at)
    WHERE state IN ('done', 'resolved');

-- Every copy that was stopped.
CREATE TABLE IF NOT EXISTS hookline_inbox_copy (
    id    integer PRIMARY KEY,
    flow  text NOT NULL,                              -- once, worker
    scope text NOT NULL,
    key   text NOT NULL,
    at    integer NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS integer) * 1000000)
);
CREATE INDEX IF NOT EXISTS hookline_inbox_copy_at ON hookline_inbox_copy (at);

-- Every effect. Nothing here is unique, on purpose: two rows of one key are the proof that something went wrong.
CREATE TABLE IF NOT EXISTS hookline_inbox_effect (
    id    integer PRIMARY KEY AUTOINCREMENT,
    flow  text NOT NULL,
    scope text NOT NULL,
    key   text NOT NULL,
    at    integer NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS integer) * 1000000)
);
CREATE INDEX IF NOT EXISTS hookline_inbox_effect_at ON hookline_inbox_effect (at);
CREATE INDEX IF NOT EXISTS hookline_inbox_effect_key ON hookline_inbox_effect (key, scope, flow, id);
