-- Order by key: what waits for its turn, and tokens that say whose turn may have come.

ALTER TABLE hookline.endpoint
    ALTER COLUMN ordering SET DEFAULT 'key',
    ADD COLUMN on_death text NOT NULL DEFAULT 'skip';      -- skip | block: what a dead delivery does to those behind it
-- Nothing else was to be had until now, so nobody chose it.
UPDATE hookline.endpoint SET ordering = 'key' WHERE ordering = 'none';

-- The queue that a delivery stands in at its endpoint: the message's key, '' for all of a fifo endpoint, NULL for none.
ALTER TABLE hookline.delivery ADD COLUMN ordering_key text COLLATE "C";
ALTER TABLE hookline.dead_letter ADD COLUMN ordering_key text COLLATE "C";
-- Queues in which somebody's turn may have come: JSON strings with commas between them; see rules/ordering.py.
ALTER TABLE hookline.wake ADD COLUMN keys text;

-- One at a time, whatever goes wrong elsewhere. Deliveries without a key are in none of these.
CREATE UNIQUE INDEX delivery_active ON hookline.delivery (endpoint_no, ordering_key) WHERE state < 3 AND ordering_key IS NOT NULL;
CREATE INDEX delivery_queued ON hookline.delivery (endpoint_no, ordering_key, message_seq, id) WHERE state = 6;
CREATE INDEX delivery_queued_expires ON hookline.delivery (expires_at) WHERE state = 6;
CREATE INDEX dead_letter_blocks ON hookline.dead_letter (endpoint_no, ordering_key, message_seq)
    WHERE ordering_key IS NOT NULL AND resolved_at IS NULL;
-- The relay asks for them on behalf of every other relay that is at work.
CREATE INDEX endpoint_fifo ON hookline.endpoint (app_no) WHERE ordering = 'fifo' AND deleted_at IS NULL;
-- What expires is for the sweep alone, which asks for `expires_at`. Among many queued rows the few that wait are lost in the
-- statistics, and the claim would read all of those by this index and sort them, instead of the first ones by theirs.
DROP INDEX hookline.delivery_expires;
CREATE INDEX delivery_expires ON hookline.delivery (expires_at) WHERE state < 2 AND expires_at IS NOT NULL;
