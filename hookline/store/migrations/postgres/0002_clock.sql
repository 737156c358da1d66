-- The newest time that the sweep saw on the database's clock. If the clock shows an earlier time, it was set back: see
-- store/postgres/clock.py.
CREATE TABLE hookline.clock (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    at       timestamptz NOT NULL,
    was_at   timestamptz,                             -- `at` before the clock was set back
    back     interval NOT NULL DEFAULT interval '0',  -- how far to move deliveries with `moved_id` < id <= `last_id`
    moved_id bigint NOT NULL DEFAULT 0,
    last_id  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
