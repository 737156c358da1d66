-- Order by key: what waits for its turn, and tokens that say whose turn may have come.

ALTER TABLE endpoint ADD COLUMN on_death text NOT NULL DEFAULT 'skip';   -- skip | block: what a dead delivery does to those behind it
-- Nothing else was to be had until now, so nobody chose it. The column's default cannot be changed; every insert names it.
UPDATE endpoint SET ordering = 'key' WHERE ordering = 'none';

-- The queue that a delivery stands in at its endpoint: the message's key, '' for all of a fifo endpoint, NULL for none.
ALTER TABLE delivery ADD COLUMN ordering_key text;
ALTER TABLE dead_letter ADD COLUMN ordering_key text;
-- Queues in which somebody's turn may have come: JSON strings with commas between them; see rules/ordering.py.
ALTER TABLE wake ADD COLUMN keys text;

-- One at a time, whatever goes wrong elsewhere. Deliveries without a key are in none of these.
CREATE UNIQUE INDEX delivery_active ON delivery (endpoint_no, ordering_key) WHERE state < 3 AND ordering_key IS NOT NULL;
CREATE INDEX delivery_queued ON delivery (endpoint_no, ordering_key, message_seq, id) WHERE state = 6;
CREATE INDEX delivery_queued_expires ON delivery (expires_at) WHERE state = 6;
CREATE INDEX dead_letter_blocks ON dead_letter (endpoint_no, ordering_key, message_seq)
 WHERE ordering_key IS NOT NULL AND resolved_at IS NULL;
