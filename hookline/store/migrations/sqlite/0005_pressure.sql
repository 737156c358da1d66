-- Lanes under pressure: the pace that an endpoint's 429s have taught us, and the rate of an application as a whole.

ALTER TABLE lane ADD COLUMN pace real;                -- starts a second; NULL: the endpoint has not complained
ALTER TABLE lane ADD COLUMN pace_at integer;          -- when it last changed
ALTER TABLE lane ADD COLUMN pace_top real;            -- that was too much, the last time
ALTER TABLE lane ADD COLUMN slowed_at integer;        -- the last complaint that slowed it
ALTER TABLE lane ADD COLUMN app_rate real;            -- the application's own limit; see app_pace
ALTER TABLE lane ADD COLUMN turn_at integer;          -- its turn among the lanes that wait for that limit

-- The limit of an application, shared by its lanes.
CREATE TABLE app_pace (
    app_no  integer PRIMARY KEY,
    tat     integer,                                  -- GCRA: the theoretical arrival time of the next start
    tail_at integer                                   -- the last turn that was given to a lane that waits
) STRICT;
-- What an application asked for was refused until now, but a row may have been written by hand.
UPDATE lane SET app_rate = (SELECT a.throttle_rate FROM application a WHERE a.no = lane.app_no);
INSERT INTO app_pace (app_no) SELECT no FROM application WHERE throttle_rate IS NOT NULL;

-- Who changed a lane by hand; NULL: nobody, it came about by itself. Keys of the API have a name.
ALTER TABLE lane_event ADD COLUMN actor text;
ALTER TABLE lane_event ADD COLUMN actor_name text;
