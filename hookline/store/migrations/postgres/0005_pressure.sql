-- Lanes under pressure: the pace that an endpoint's 429s have taught us, and the rate of an application as a whole.

ALTER TABLE hookline.lane
    ADD COLUMN pace     double precision,        -- starts a second; NULL: the endpoint has not complained
    ADD COLUMN pace_at  timestamptz,             -- when it last changed
    ADD COLUMN pace_top double precision,        -- that was too much, the last time
    ADD COLUMN slowed_at timestamptz,            -- the last complaint that slowed it
    ADD COLUMN app_rate double precision,        -- the application's own limit; see app_pace
    ADD COLUMN turn_at  timestamptz;             -- its turn among the lanes that wait for that limit

-- The limit of an application, shared by its lanes. A claim locks it after the lanes, in the order of app_no.
CREATE TABLE hookline.app_pace (
    app_no  bigint PRIMARY KEY,
    tat     timestamptz,                         -- GCRA: the theoretical arrival time of the next start
    tail_at timestamptz                          -- the last turn that was given to a lane that waits
) WITH (fillfactor = 50);
-- What an application asked for was refused until now, but a row may have been written by hand.
UPDATE hookline.lane l SET app_rate = a.throttle_rate
FROM hookline.application a WHERE a.no = l.app_no AND a.throttle_rate IS NOT NULL;
INSERT INTO hookline.app_pace (app_no) SELECT no FROM hookline.application WHERE throttle_rate IS NOT NULL;

-- Who changed a lane by hand; NULL: nobody, it came about by itself. Keys of the API have a name.
ALTER TABLE hookline.lane_event
    ADD COLUMN actor      text,
    ADD COLUMN actor_name text;
