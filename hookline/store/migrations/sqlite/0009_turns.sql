-- Applications take turns: a token says whose lane it wakes, so that a claim finds the next application that has something ready.

-- NULL: a release before this one wrote it; such a lane takes its turn among all lanes.
ALTER TABLE wake ADD COLUMN app_no integer;
CREATE INDEX wake_app ON wake (app_no, at);
