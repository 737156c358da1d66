-- The outbox for every stack: what applications write to, where a trace goes on, and how far other databases have been copied.

-- include: outbox/sql/postgres.sql

CREATE INDEX outbox_copied ON hookline.outbox (source, event_id) WHERE source IS NOT NULL;

ALTER TABLE hookline.message ADD COLUMN trace text;   -- of the publisher: traceparent, and tracestate after a space

-- Outboxes in SQLite files, which are only read.
CREATE TABLE hookline.outbox_place (
    source  text PRIMARY KEY,
    row_id  bigint NOT NULL,
    row_uid text NOT NULL,
    at      timestamptz NOT NULL DEFAULT now()
);
