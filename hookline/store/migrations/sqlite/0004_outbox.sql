-- The outbox for every stack: where a trace goes on, and how far other databases have been copied.

ALTER TABLE outbox ADD COLUMN trace text;             -- traceparent, and tracestate after a space
ALTER TABLE outbox ADD COLUMN source text;            -- the database that a row which stands aside came from; NULL: this one
ALTER TABLE outbox ADD COLUMN set_aside_at integer;
CREATE INDEX outbox_aside ON outbox (id) WHERE error IS NOT NULL;
CREATE INDEX outbox_copied ON outbox (source, event_id) WHERE source IS NOT NULL;

ALTER TABLE message ADD COLUMN trace text;            -- of the publisher: traceparent, and tracestate after a space

-- Outboxes in SQLite files, which are only read.
CREATE TABLE outbox_place (
    source  text PRIMARY KEY,
    row_id  integer NOT NULL,
    row_uid text NOT NULL,
    at      integer NOT NULL
) STRICT;
