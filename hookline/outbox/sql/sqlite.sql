-- The outbox in a SQLite database: one table in the application's own file. It is safe to run this script again.
-- Hookline only reads the file. If Hookline wrote to it, a transaction of the application that reads and then writes
-- could fail. The application's next publish, or `hookline outbox prune`, deletes relayed rows.
-- After a restore of the file, new rows get ids that were used before. Their `uid` shows that they are other rows.
-- `organization` is the organization of the application. If it is NULL and `app` is a uid, Hookline must have exactly
-- one organization. Otherwise the relay sets the row aside, and it becomes no message. An application id needs no
-- organization.

CREATE TABLE IF NOT EXISTS hookline_outbox (
    id           integer PRIMARY KEY AUTOINCREMENT,
    uid          text NOT NULL DEFAULT (lower(hex(randomblob(12)))),           -- random; unlike `id`, never reused
    organization text,                                                         -- may be NULL: see above
    app          text NOT NULL,                                                -- id or uid of the application
    event_type   text NOT NULL,
    payload      text NOT NULL,                                                -- JSON
    event_id     text NOT NULL DEFAULT ('evt_' || lower(hex(randomblob(16)))), -- a second event with this id is dropped
    channels     text,                                                         -- JSON, a list of strings
    tags         text,                                                         -- JSON, a list of strings
    ordering_key text,
    deliver_at   text,                                                         -- ISO 8601 with a time zone
    max_age      real,                                                         -- seconds
    trace        text,                                                         -- traceparent, and tracestate after a space
    created_at   text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
