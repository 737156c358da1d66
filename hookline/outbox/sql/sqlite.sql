-- The outbox in a SQLite database: one table in the application's own file. It is safe to run this again.
-- Hookline only reads the file: a write of another process would break a transaction that reads and then writes. The
-- application's next publish, or `hookline outbox prune`, deletes relayed rows.

CREATE TABLE IF NOT EXISTS hookline_outbox (
    id           integer PRIMARY KEY AUTOINCREMENT,
    uid          text NOT NULL DEFAULT (lower(hex(randomblob(12)))),           -- random; a restored file reuses ids
    organization text,                                                         -- NULL: the only one, or that of the application
    app          text NOT NULL,                                                -- id or uid of the application
    event_type   text NOT NULL,
    payload      text NOT NULL,                                                -- JSON
    event_id     text NOT NULL DEFAULT ('evt_' || lower(hex(randomblob(16)))), -- a second event with it is dropped
    channels     text,                                                         -- JSON, a list of strings
    tags         text,                                                         -- JSON, a list of strings
    ordering_key text,
    deliver_at   text,                                                         -- ISO 8601 with a time zone
    max_age      real,                                                         -- seconds
    trace        text,                                                         -- traceparent, and tracestate after a space
    created_at   text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
