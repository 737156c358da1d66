-- What whole organizations are asked for, whose applications may be thousands.

-- Of all applications of an organization: a sum, kept beside those of `activity`.
CREATE TABLE org_activity (
    org_id    text NOT NULL,
    grain     integer NOT NULL,
    at        integer NOT NULL,
    delivered integer NOT NULL,
    retried   integer NOT NULL,
    dead      integer NOT NULL,
    PRIMARY KEY (org_id, grain, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX org_activity_age ON org_activity (grain, at);

INSERT INTO org_activity (org_id, grain, at, delivered, retried, dead)
SELECT a.org_id, y.grain, y.at, sum(y.delivered), sum(y.retried), sum(y.dead)
  FROM activity y JOIN application a ON a.no = y.app_no WHERE y.endpoint_no = 0 GROUP BY a.org_id, y.grain, y.at;

-- Whose dead letters nobody has resolved: found one endpoint after the other, however many each has.
CREATE INDEX dead_letter_unresolved ON dead_letter (app_no, endpoint_no) WHERE resolved_at IS NULL;
