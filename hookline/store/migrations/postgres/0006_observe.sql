-- What processes did, by the pulse, and which alerts fire: see observe/.

CREATE TABLE hookline.pulse (
    grain   smallint NOT NULL,                   -- 0: of one process, as it came; 1: a minute of all of them
    at      timestamptz NOT NULL,                -- its end
    process text NOT NULL,                       -- a random name; '' for a minute of all
    data    bytea NOT NULL,                      -- JSON, observe.pulse.Pulse
    PRIMARY KEY (grain, at, process)
);

-- One row for each time that an alert fired.
CREATE TABLE hookline.alert (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL,
    subject     text NOT NULL,                   -- what it is about, where that is not the whole: an endpoint's id; else ''
    severity    text NOT NULL,                   -- warning | critical
    began_at    timestamptz NOT NULL,            -- what it tells of; it may have to last before it is told
    fired_at    timestamptz NOT NULL,
    clear_since timestamptz,                     -- it seems to be over
    resolved_at timestamptz,
    value       double precision NOT NULL,       -- the last that was seen
    threshold   double precision NOT NULL,
    text        text NOT NULL                    -- for people, likewise
);
CREATE UNIQUE INDEX alert_firing ON hookline.alert (name, subject) WHERE resolved_at IS NULL;
CREATE INDEX alert_fired ON hookline.alert (fired_at);

-- What will be an alert if it lasts.
CREATE TABLE hookline.alert_pending (
    name     text NOT NULL,
    subject  text NOT NULL,
    began_at timestamptz NOT NULL,
    PRIMARY KEY (name, subject)
);

-- Each time that the rules were asked, by whichever process.
CREATE TABLE hookline.alert_look (
    at      timestamptz PRIMARY KEY,
    backlog bigint NOT NULL                      -- deliveries that were due
);

-- Few: alerts look for them however many lanes there are.
CREATE INDEX lane_open ON hookline.lane (circuit) WHERE circuit > 0;

-- The last depths that anybody counted, for the whole fleet.
CREATE TABLE hookline.depths (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    at   timestamptz NOT NULL,
    data bytea NOT NULL                          -- JSON, model.Depths
);
