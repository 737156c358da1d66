-- What whole organizations are asked for, whose applications may be thousands.

-- Of all applications of an organization: a sum, kept beside those of `activity`.
CREATE TABLE hookline.org_activity (
    org_id    text COLLATE "C" NOT NULL,
    grain     smallint NOT NULL,
    at        timestamptz NOT NULL,
    delivered bigint NOT NULL,
    retried   bigint NOT NULL,
    dead      bigint NOT NULL,
    PRIMARY KEY (org_id, grain, at)
) WITH (fillfactor = 70);
CREATE INDEX org_activity_age ON hookline.org_activity (grain, at);

INSERT INTO hookline.org_activity (org_id, grain, at, delivered, retried, dead)
SELECT a.org_id, y.grain, y.at, sum(y.delivered), sum(y.retried), sum(y.dead)
FROM hookline.activity y JOIN hookline.application a ON a.no = y.app_no
WHERE y.endpoint_no = 0 GROUP BY a.org_id, y.grain, y.at;

-- Whose dead letters nobody has resolved: found one endpoint after the other, however many each has.
CREATE INDEX dead_letter_unresolved ON hookline.dead_letter (app_no, endpoint_no) WHERE resolved_at IS NULL;
