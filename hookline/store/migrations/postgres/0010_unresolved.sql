-- The oldest dead letter of an endpoint that nobody has resolved is found without stepping over those that somebody has.
-- Built before the old one goes, which nobody may read meanwhile.

CREATE INDEX dead_letter_unresolved_since ON hookline.dead_letter (app_no, endpoint_no, died_at) WHERE resolved_at IS NULL;
DROP INDEX hookline.dead_letter_unresolved;
ALTER INDEX hookline.dead_letter_unresolved_since RENAME TO dead_letter_unresolved;
