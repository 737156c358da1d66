-- Takes the outbox out of a PostgreSQL database again. It stays as it is where Hookline's own tables are beside it, or where
-- another role set it up. Events that wait, or stand aside, are an error: they would never be sent.

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
        RAISE EXCEPTION 'hookline.outbox still has % event(s): let Hookline relay them, or delete them if nobody is to get them',
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
        NULL;  -- somebody keeps other things in it, or it is not ours
    END;
END $$;
