-- The oldest dead letter of an endpoint that nobody has resolved is found without stepping over those that somebody has.

DROP INDEX dead_letter_unresolved;
CREATE INDEX dead_letter_unresolved ON dead_letter (app_no, endpoint_no, died_at) WHERE resolved_at IS NULL;
