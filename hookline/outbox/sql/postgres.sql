-- The outbox in a PostgreSQL database. It is safe to run this script again, in a database with or without Hookline's
-- own tables. Applications must call `hookline.publish`, and must not write to the table.

CREATE SCHEMA IF NOT EXISTS hookline;

CREATE TABLE IF NOT EXISTS hookline.outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The organization of the application. If it is NULL and `app` is a uid, Hookline must have exactly one
    -- organization. Otherwise the relay sets the row aside. An application id needs no organization.
    org_id       text,
    app          text NOT NULL,     -- id or uid of the application
    event_type   text NOT NULL,
    payload      bytea NOT NULL,
    event_id     text,
    channels     text[],
    tags         text[],
    ordering_key text,
    deliver_at   timestamptz,
    policy       jsonb,
    error        text,              -- why the row is set aside; NULL: it is not set aside
    created_at   timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The id begins with the time, so that new ids are next to each other in the index.
CREATE OR REPLACE FUNCTION hookline.new_event_id() RETURNS text LANGUAGE sql AS $$
    SELECT 'evt_' || lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
                  || substr(replace(gen_random_uuid()::text, '-', ''), 1, 20)
$$;

ALTER TABLE hookline.outbox
    ADD COLUMN IF NOT EXISTS trace text,                -- traceparent, and tracestate after a space
    ADD COLUMN IF NOT EXISTS source text,               -- where a row set aside was copied from; NULL: this database
    ADD COLUMN IF NOT EXISTS set_aside_at timestamptz,
    ALTER COLUMN event_id SET DEFAULT hookline.new_event_id();  -- with the id, the relay detects duplicate rows
CREATE INDEX IF NOT EXISTS outbox_new ON hookline.outbox (id) WHERE error IS NULL;
CREATE INDEX IF NOT EXISTS outbox_aside ON hookline.outbox (id) WHERE error IS NOT NULL;

-- The trigger runs at COMMIT, just before the row becomes visible. A sleeping relay holds the advisory lock
-- (1214542, 3) exclusively. The publisher tries to take the same lock in shared mode.
-- If the publisher does not get the lock, a relay sleeps, and the publisher notifies it.
-- If the publisher gets the lock, no relay sleeps. The publisher holds the lock until its transaction ends, so that no
-- relay falls asleep before the row is visible. A relay that falls asleep later checks the table once more.
-- So no row is missed, and no publisher notifies a relay that is awake. NOTIFY must be rare, because it takes a
-- database-wide lock.
-- `SET hookline.notify = off` is for PREPARE TRANSACTION, which refuses NOTIFY. The relay then finds the row when it
-- polls.
CREATE OR REPLACE FUNCTION hookline.outbox_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(pg_catalog.current_setting('hookline.notify', true), '') <> 'off'
       AND NOT pg_catalog.pg_try_advisory_xact_lock_shared(1214542, 3) THEN
        PERFORM pg_catalog.pg_notify('hookline_outbox', '');
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS outbox_written ON hookline.outbox;
CREATE CONSTRAINT TRIGGER outbox_written AFTER INSERT ON hookline.outbox
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.error IS NULL) EXECUTE FUNCTION hookline.outbox_written();

CREATE OR REPLACE FUNCTION hookline.name_fault(field text, name text, longest integer) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN name IN ('.', '..') THEN format('%s: ''%s'' cannot stand in a URL', field, name)
        WHEN name !~ '^[a-zA-Z0-9_.-]+$' OR length(name) > longest
            THEN format('%s: ''%s'' is not 1 to %s of the characters a-z A-Z 0-9 - _ .', field,
                        CASE WHEN length(name) <= 60 THEN name ELSE left(name, 60) || '...' END, longest)
    END
$$;

CREATE OR REPLACE FUNCTION hookline.list_fault(field text, listed text[], most integer) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN cardinality(listed) NOT BETWEEN 1 AND most THEN format('%s: give 1 to %s, or leave it out', field, most)
        WHEN array_ndims(listed) > 1 OR array_position(listed, NULL) > 0 THEN field || ': is not a plain list of texts'
        WHEN (SELECT count(DISTINCT one) < count(*) FROM unnest(listed) AS one) THEN field || ': has the same entry twice'
    END
$$;

-- Raise an error for a bad argument, for callers in any language. The relay checks everything again.
-- Lists are checked in a separate step, because plpgsql is ten times faster without their subqueries.
CREATE OR REPLACE FUNCTION hookline.check_event(
    app text, event_type text, payload text, event_id text, channels text[], tags text[], ordering_key text,
    deliver_at timestamptz, max_age interval, organization text, trace text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    fault text := coalesce(
        CASE WHEN app IS NULL THEN 'app: is NULL' END,
        hookline.name_fault('app', app, 256),
        CASE WHEN event_type IS NULL THEN 'event type: is NULL' END,
        hookline.name_fault('event type', event_type, 256),
        CASE WHEN payload IS NULL THEN 'payload: is NULL; JSON has a null of its own' END,
        hookline.name_fault('event_id', event_id, 256),
        CASE WHEN octet_length(payload) > 67108864
                 THEN format('payload: %s bytes, more than 67108864', octet_length(payload))
             WHEN starts_with(event_id, 'msg_') THEN 'event_id: must not begin with ''msg_'', as Hookline''s own ids do'
             WHEN length(ordering_key) NOT BETWEEN 1 AND 256 THEN 'ordering_key: must be 1 to 256 characters long'
             WHEN deliver_at NOT BETWEEN timestamptz '2000-01-01 00:00+00' AND timestamptz '3000-01-01 00:00+00'
                 THEN 'deliver_at: is not between the years 2000 and 3000'
             WHEN deliver_at > now() + interval '30 days' THEN 'deliver_at: more than 30 days ahead'
             WHEN extract(epoch FROM max_age) NOT BETWEEN 0.001 AND 2592000
                 THEN 'max_age: is not between a millisecond and 30 days'
             WHEN organization = 'org_00000000000SvixManagement00' THEN 'organization: is reserved for Hookline'
             WHEN length(organization) NOT BETWEEN 1 AND 256 THEN 'organization: must be 1 to 256 characters long'
             WHEN trace !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}( .*)?$'
                  OR length(trace) > 4096
                 THEN 'trace: is not a traceparent, with a tracestate after a space' END);
BEGIN
    IF fault IS NULL AND channels IS NOT NULL THEN
        fault := coalesce(hookline.list_fault('channels', channels, 5),
                          (SELECT min(hookline.name_fault('channels', one, 128)) FROM unnest(channels) AS one));
    END IF;
    IF fault IS NULL AND tags IS NOT NULL THEN
        fault := coalesce(hookline.list_fault('tags', tags, 10),
                          (SELECT min('tags: must be 1 to 128 characters long') FROM unnest(tags) AS one
                           WHERE length(one) NOT BETWEEN 1 AND 128));
    END IF;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = fault;
    END IF;
    PERFORM payload::json;
END $$;

-- Write an event to the outbox, in the caller's own transaction. Return its event id. There is one function for each
-- type of payload: text, json and jsonb. For a payload without a type, such as a literal, PostgreSQL calls the function
-- for text. The functions for json and jsonb also call the function for text. It runs with the rights of its owner, so
-- the role of an application needs no rights to the table, only the right to call the functions.
CREATE OR REPLACE FUNCTION hookline.publish(
    app text, event_type text, payload text, event_id text DEFAULT NULL, channels text[] DEFAULT NULL, tags text[] DEFAULT NULL,
    ordering_key text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, max_age interval DEFAULT NULL,
    organization text DEFAULT NULL, trace text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    named text := coalesce(event_id, hookline.new_event_id());
BEGIN
    PERFORM hookline.check_event(app, event_type, payload, event_id, channels, tags, ordering_key, deliver_at, max_age,
                                 organization, trace);
    INSERT INTO hookline.outbox (org_id, app, event_type, payload, event_id, channels, tags, ordering_key, deliver_at, policy,
                                 trace)
    VALUES (organization, app, event_type, convert_to(payload, 'UTF8'), named, channels, tags, ordering_key, deliver_at,
            CASE WHEN max_age IS NOT NULL THEN jsonb_build_object('max_age', extract(epoch FROM max_age)::float8) END, trace);
    RETURN named;
END $$;

CREATE OR REPLACE FUNCTION hookline.publish(
    app text, event_type text, payload json, event_id text DEFAULT NULL, channels text[] DEFAULT NULL, tags text[] DEFAULT NULL,
    ordering_key text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, max_age interval DEFAULT NULL,
    organization text DEFAULT NULL, trace text DEFAULT NULL
) RETURNS text LANGUAGE sql AS $$
    SELECT hookline.publish($1, $2, $3::text, $4, $5, $6, $7, $8, $9, $10, $11)
$$;

CREATE OR REPLACE FUNCTION hookline.publish(
    app text, event_type text, payload jsonb, event_id text DEFAULT NULL, channels text[] DEFAULT NULL, tags text[] DEFAULT NULL,
    ordering_key text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, max_age interval DEFAULT NULL,
    organization text DEFAULT NULL, trace text DEFAULT NULL
) RETURNS text LANGUAGE sql AS $$
    SELECT hookline.publish($1, $2, $3::text, $4, $5, $6, $7, $8, $9, $10, $11)
$$;

-- Write many events in one round trip. Python's `hookline.outbox` checks the events and then calls this function.
-- Payloads are JSON in a string, so that their bytes do not change. `max_age` is in seconds. Return how many
-- events were written.
CREATE OR REPLACE FUNCTION hookline.publish_events(events json) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written bigint;
BEGIN
    INSERT INTO hookline.outbox (org_id, app, event_type, payload, event_id, channels, tags, ordering_key, deliver_at, policy,
                                 trace)
    SELECT nullif(e.organization, 'org_00000000000SvixManagement00'), e.app, e.event_type, convert_to(e.payload, 'UTF8'),
           coalesce(e.event_id, hookline.new_event_id()), e.channels, e.tags, e.ordering_key, e.deliver_at,
           CASE WHEN e.max_age IS NOT NULL THEN jsonb_build_object('max_age', e.max_age) END, e.trace
    FROM json_to_recordset(events) AS e (
        app text, event_type text, payload text, event_id text, channels text[], tags text[], ordering_key text,
        deliver_at timestamptz, max_age float8, organization text, trace text);
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END $$;

-- PostgreSQL lets every role call a new function. The first run of this script revokes this right, so a role needs a
-- grant to publish: see `hookline outbox sql --grant ROLE`. Later runs revoke nothing.
DO $$
BEGIN
    IF pg_catalog.to_regprocedure('hookline.outbox_version()') IS NULL THEN
        REVOKE ALL ON FUNCTION
            hookline.publish(text, text, text, text, text[], text[], text, timestamptz, interval, text, text),
            hookline.publish(text, text, json, text, text[], text[], text, timestamptz, interval, text, text),
            hookline.publish(text, text, jsonb, text, text[], text[], text, timestamptz, interval, text, text),
            hookline.publish_events(json) FROM PUBLIC;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION hookline.outbox_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1';
