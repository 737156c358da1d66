-- The outbox of a SQLite database: one table in the application's own file. Safe to run again.
-- Hookline only reads it: a write of another process would break a transaction that reads and then writes. What has been
-- relayed goes with the application's next publish, or with `hookline outbox prune`.

CREATE TABLE IF NOT EXISTS hookline_outbox (
    id           integer PRIMARY KEY AUTOINCREMENT,
    uid          text NOT NULL DEFAULT (lower(hex(randomblob(12)))),           -- tells this row from another of its number
    organization text,                                                         -- NULL: the only one, or the one `app` is an id of
    app          text NOT NULL,                                                -- id or uid
    event_type   text NOT NULL,
    payload      text NOT NULL,                                                -- JSON
    event_id     text NOT NULL DEFAULT ('evt_' || lower(hex(randomblob(16)))), -- a second copy of the same id is dropped
    channels     text,                                                         -- JSON, a list of strings
    tags         text,                                                         -- likewise
    ordering_key text,
    deliver_at   text,                                                         -- ISO 8601 with a time zone
    max_age      real,                                                         -- seconds
    trace        text,                                                         -- traceparent, and tracestate after a space
    created_at   text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
