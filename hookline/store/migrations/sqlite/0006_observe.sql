-- What processes did, by the pulse, and which alerts fire: see observe/.

CREATE TABLE pulse (
    grain   integer NOT NULL,                         -- 0: of one process, as it came; 1: a minute of all of them
    at      integer NOT NULL,                         -- its end
    process text NOT NULL,                            -- a random name; '' for a minute of all
    data    blob NOT NULL,                            -- JSON, observe.pulse.Pulse
    PRIMARY KEY (grain, at, process)
) STRICT, WITHOUT ROWID;

-- One row for each time that an alert fired.
CREATE TABLE alert (
    id          integer PRIMARY KEY AUTOINCREMENT,    -- never again: messages are told apart by it
    name        text NOT NULL,
    subject     text NOT NULL,                        -- what it is about, where that is not the whole: an endpoint's id; else ''
    severity    text NOT NULL,                        -- warning | critical
    began_at    integer NOT NULL,                     -- what it tells of; it may have to last before it is told
    fired_at    integer NOT NULL,
    clear_since integer,                              -- it seems to be over
    resolved_at integer,
    value       real NOT NULL,                        -- the last that was seen
    threshold   real NOT NULL,
    text        text NOT NULL                         -- for people, likewise
) STRICT;
CREATE UNIQUE INDEX alert_firing ON alert (name, subject) WHERE resolved_at IS NULL;
CREATE INDEX alert_fired ON alert (fired_at);

-- What will be an alert if it lasts.
CREATE TABLE alert_pending (
    name     text NOT NULL,
    subject  text NOT NULL,
    began_at integer NOT NULL,
    PRIMARY KEY (name, subject)
) STRICT, WITHOUT ROWID;

-- Each time that the rules were asked, by whichever process.
CREATE TABLE alert_look (
    at      integer PRIMARY KEY,
    backlog integer NOT NULL                          -- deliveries that were due
) STRICT;
