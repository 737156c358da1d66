-- Applications take turns: a token says whose lane it wakes, so that a claim finds the next application that has something ready.

-- NULL: a release before this one wrote it; such a lane takes its turn among all lanes.
ALTER TABLE hookline.wake ADD COLUMN app_no bigint;
CREATE INDEX wake_app ON hookline.wake (app_no, at);
