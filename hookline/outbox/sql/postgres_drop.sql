-- Remove the outbox from a PostgreSQL database. It stays if Hookline's own tables are beside it, or if another role set it up.
-- Fail if events wait in the outbox or are set aside: they would never be sent.

DO $$
DECLARE
    home oid := (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'hookline');
    outbox pg_catalog.pg_class := (SELECT c FROM pg_catalog.pg_class AS c WHERE relnamespace = home AND relname = 'outbox');
    waiting bigint;
    part regprocedure;
BEGIN
    IF (outbox).oid IS NULL OR NOT pg_catalog.pg_has_role((outbox).relowner, 'USAGE')
       OR EXISTS (SELECT FROM pg_catalog.pg_class
                  WHERE relnamespace = home AND relkind IN ('r', 'p') AND relname <> 'outbox') THEN
        RETURN;
    END IF;
    LOCK TABLE hookline.outbox IN ACCESS EXCLUSIVE MODE;
    SELECT count(*) INTO waiting FROM hookline.outbox;
    IF waiting > 0 THEN
        RAISE EXCEPTION 'hookline.outbox still has % event(s): let Hookline relay them, or delete them if nobody needs them',
            waiting USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    DROP TABLE hookline.outbox;
    FOR part IN
        SELECT oid FROM pg_catalog.pg_proc WHERE pronamespace = home AND proname IN
            ('new_event_id', 'outbox_written', 'name_fault', 'list_fault', 'check_event', 'publish', 'publish_events',
             'outbox_version')
    LOOP
        EXECUTE pg_catalog.format('DROP FUNCTION %s', part);
    END LOOP;
    BEGIN
        DROP SCHEMA hookline;
    EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
        NULL;  -- the schema stays, because it has other objects or another owner
    END;
END $$;
