-- Schema 1 of a fleet. Once a release has it, it is never edited: a change is a new file.
--
-- Everything is in the schema midcourse and belongs to the role that ran `midcourse fleet init`. Writers
-- may call midcourse.ship, midcourse.shipped and midcourse.heads, and read the version. Readers may select, and
-- call allowed, heads and runs_with; row-level security shows them the rows of their projects.

CREATE SCHEMA midcourse;

CREATE TABLE midcourse.version (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL
);

CREATE TABLE midcourse.projects (
    project integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$')
);

-- What a role, or the members of a role, may do in a project.
CREATE TABLE midcourse.access (
    role name NOT NULL,
    project integer NOT NULL REFERENCES midcourse.projects ON DELETE CASCADE,
    may text NOT NULL CHECK (may IN ('read', 'write')),
    PRIMARY KEY (role, project, may)
);

-- The days that have partitions.
CREATE TABLE midcourse.days (day date PRIMARY KEY);

-- A number in a header; NULL if there is none. Headers come from writers, and what they contain must
-- not make a statement fail that concerns other runs too.
CREATE FUNCTION midcourse.number(header jsonb, VARIADIC path text[]) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN pg_catalog.jsonb_typeof(pg_catalog.jsonb_extract_path($1, VARIADIC $2))
            OPERATOR(pg_catalog.=) 'number'
        THEN pg_catalog.jsonb_extract_path_text($1, VARIADIC $2)::pg_catalog.numeric END
$$;

-- The nearest number that a bigint can hold. Like the function above, it names the operators of Postgres
-- in full, because it has the search path of its caller: with one of its own, it would be slower.
CREATE FUNCTION midcourse.clamped(number numeric) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN $1 OPERATOR(pg_catalog.>) 9223372036854775807 THEN 9223372036854775807
        WHEN $1 OPERATOR(pg_catalog.<) -9223372036854775808 THEN -9223372036854775808
        ELSE pg_catalog.trunc($1) END::pg_catalog.int8
$$;

-- One row per run: how far it was shipped, and its header. Not partitioned, because a run id is unique
-- in its project; the row stays when the partitions of its day are dropped, so that `verify --against`
-- still knows the end of the run's hash chain.
CREATE TABLE midcourse.runs (
    run bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project integer NOT NULL REFERENCES midcourse.projects,
    run_id text COLLATE "C" NOT NULL,
    day date NOT NULL,                     -- the partition: the day on which the run started (UTC)
    writer name NOT NULL,                  -- the role that ships the run; no other role may
    store text NOT NULL,                   -- a random id of the store that ships the run
    level text NOT NULL CHECK (level IN ('full', 'metadata')),
    records bigint NOT NULL,               -- what was shipped so far
    reports bigint NOT NULL,
    link bytea NOT NULL,                   -- last link of the run's hash chain
    is_dropped boolean NOT NULL DEFAULT false,  -- the partitions of its day were dropped
    received timestamptz NOT NULL DEFAULT now(),  -- when its last part arrived
    header jsonb,                          -- the run as it was when its last part was shipped
    parent_run_id text GENERATED ALWAYS AS (header #>> '{summary,parent_run_id}') STORED,
    host text GENERATED ALWAYS AS (header #>> '{summary,host}') STORED,
    started bigint GENERATED ALWAYS AS (midcourse.clamped(
        midcourse.number(header, 'summary', 'started'))) STORED,
    latest bigint GENERATED ALWAYS AS (midcourse.clamped(
        midcourse.number(header, 'summary', 'latest'))) STORED,
    ended bigint GENERATED ALWAYS AS (midcourse.clamped(
        midcourse.number(header, 'summary', 'ended'))) STORED,
    outcome text GENERATED ALWAYS AS (header #>> '{summary,outcome}') STORED,
    calls bigint GENERATED ALWAYS AS (midcourse.clamped(
        midcourse.number(header, 'summary', 'calls'))) STORED,
    errors bigint GENERATED ALWAYS AS (midcourse.clamped(
        midcourse.number(header, 'summary', 'errors'))) STORED,
    messages bigint GENERATED ALWAYS AS (midcourse.clamped(
        midcourse.number(header, 'summary', 'deliveries')
        + coalesce(midcourse.number(header, 'summary', 'shadow_deliveries'), 0))) STORED,
    tokens bigint GENERATED ALWAYS AS (midcourse.clamped(
        midcourse.number(header, 'summary', 'tokens', 'input_tokens')
        + coalesce(midcourse.number(header, 'summary', 'tokens', 'output_tokens'), 0)
        + coalesce(midcourse.number(header, 'summary', 'tokens', 'cache_creation_input_tokens'), 0)
        + coalesce(midcourse.number(header, 'summary', 'tokens', 'cache_read_input_tokens'), 0)))
        STORED,
    cost bigint GENERATED ALWAYS AS (midcourse.clamped(
        midcourse.number(header, 'summary', 'cost'))) STORED,
    task text GENERATED ALWAYS AS (header #>> '{summary,task}') STORED,
    folder text GENERATED ALWAYS AS (header #>> '{summary,folder}') STORED,
    model text GENERATED ALWAYS AS (header #>> '{summary,model}') STORED,
    UNIQUE (project, run_id)
) WITH (fillfactor = 80);
-- These indexes have only columns that do not change once a run has a header. With other columns, each
-- update of a run would write to all indexes. INCLUDE lets runs be counted from the index alone.
CREATE INDEX runs_started ON midcourse.runs (project, started DESC, run DESC)
    INCLUDE (parent_run_id) WHERE started IS NOT NULL;
CREATE INDEX runs_host ON midcourse.runs (project, host, started DESC, run DESC)
    INCLUDE (parent_run_id) WHERE started IS NOT NULL;
CREATE INDEX runs_parent ON midcourse.runs (project, parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_day ON midcourse.runs (day);
CREATE INDEX runs_store ON midcourse.runs (project, store);

CREATE TABLE midcourse.records (
    day date NOT NULL,
    run bigint NOT NULL,
    seq bigint NOT NULL,
    at bigint NOT NULL,                    -- Unix milliseconds
    project integer NOT NULL,
    schema_version integer NOT NULL,
    redactions integer NOT NULL,
    failed boolean,
    bucket smallint NOT NULL,              -- 0 to 63; see words
    kind text NOT NULL,
    fact bytea,                            -- UTF-8; may contain NUL characters, which text cannot
    host text NOT NULL,
    channel text NOT NULL,
    decision_point text,
    link bytea NOT NULL,
    payload text NOT NULL,                 -- exactly the bytes that the hash chain covers; not jsonb
    pointers bytea[],                      -- of long texts: where they are in the payload (UTF-8),
    hashes bytea[],                        -- their BLAKE3 hashes,
    keys bytea[],                          -- and their keys in bodies
    PRIMARY KEY (day, run, seq)
) PARTITION BY RANGE (day);

-- What later sources added to a record, or reported differently.
CREATE TABLE midcourse.reports (
    day date NOT NULL,
    run bigint NOT NULL,
    ordinal bigint NOT NULL,               -- its position among the reports of the run
    seq bigint NOT NULL,                   -- the record that it is about
    after bigint NOT NULL,                 -- how many records the run had when it arrived
    at bigint NOT NULL,
    project integer NOT NULL,
    host text NOT NULL,
    channel text NOT NULL,
    status text NOT NULL,
    hash bytea NOT NULL,
    link bytea NOT NULL,
    zstd bytea NOT NULL,
    PRIMARY KEY (day, run, ordinal)
) PARTITION BY RANGE (day);

-- Long texts, stored once for each project and day. The key is the SHA-256 of the length (8 bytes, big
-- endian) and the compressed bytes, which the server checks: nobody can put another text, or another
-- length, in the place of one that is shipped later.
CREATE TABLE midcourse.bodies (
    day date NOT NULL,
    project integer NOT NULL,
    key bytea NOT NULL,
    length bigint NOT NULL,
    zstd bytea NOT NULL,
    PRIMARY KEY (day, project, key)
) PARTITION BY RANGE (day);
ALTER TABLE midcourse.bodies ALTER COLUMN zstd SET STORAGE EXTERNAL;

-- The words of each part of a run, as FNV-1a hashes, which are smaller than texts and compared faster. A
-- part is what one batch had of the run. A search finds runs here and then reads their records. To read few
-- of them, each record has a bucket number (a call and its result have the same one), and each word has the
-- set of buckets in which it occurs. If a search has several words, only records in a bucket that all of
-- them have in common can match.
CREATE TABLE midcourse.words (
    day date NOT NULL,
    run bigint NOT NULL,
    first_seq bigint NOT NULL,
    end_seq bigint NOT NULL,
    project integer NOT NULL,
    words integer[] NOT NULL,
    buckets bigint[],                      -- of each word, as bits
    PRIMARY KEY (day, run, first_seq)
) PARTITION BY RANGE (day);
CREATE INDEX words_words ON midcourse.words USING gin (words);

-- The projects in which the current user may do something; only the one that the setting
-- midcourse.project names, if it is set.
CREATE FUNCTION midcourse.allowed(may text) RETURNS SETOF integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT a.project FROM midcourse.access AS a
    JOIN pg_catalog.pg_roles AS r ON r.rolname = a.role
    JOIN midcourse.projects AS p ON p.project = a.project
    WHERE a.may = $1 AND pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER')
    AND (coalesce(current_setting('midcourse.project', true), '') IN ('', p.name))
$$;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['projects', 'runs', 'records', 'reports', 'bodies', 'words'] LOOP
        EXECUTE format('ALTER TABLE midcourse.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY readers ON midcourse.%I FOR SELECT USING '
            '(project = ANY (ARRAY(SELECT midcourse.allowed(''read''))))', name);
    END LOOP;
    -- Payloads are compressed faster with lz4, where the server was built with it.
    BEGIN
        ALTER TABLE midcourse.records ALTER COLUMN payload SET COMPRESSION lz4;
        ALTER TABLE midcourse.words ALTER COLUMN words SET COMPRESSION lz4,
            ALTER COLUMN buckets SET COMPRESSION lz4;
    EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN NULL;
    END;
END $$;

-- Statistics cover the rows of all projects, and EXPLAIN shows estimates that come from them. A reader could
-- guess texts of other projects that way. So the planner gets statistics only about the numbers of projects,
-- runs and records, the days, and the times at which runs started, which lists need.
CREATE FUNCTION midcourse.without_statistics(part regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name name;
BEGIN
    FOR name IN SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = part AND a.attnum > 0
        AND NOT a.attisdropped AND a.attname NOT IN ('day', 'project', 'run', 'seq', 'started')
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', part, name);
    END LOOP;
END $$;

DO $$ BEGIN
    PERFORM midcourse.without_statistics(('midcourse.' || name)::regclass)
    FROM unnest(ARRAY['runs', 'records', 'reports', 'bodies', 'words']) AS name;
END $$;

-- The partition of a run that started at this time. A clock that is wrong by years makes no partition
-- of its own: its runs go to the present day. Runs that started long ago go to the first day of their
-- month, so that a writer with old runs, or with invented times, makes some hundred partitions at most.
CREATE FUNCTION midcourse.day_of(started bigint) RETURNS date
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN t.day >= t.today - 62 THEN t.day ELSE date_trunc('month', t.day)::date END
    FROM (SELECT n.today, CASE WHEN started BETWEEN 1420070400000
            AND extract(epoch FROM now()) * 1000 + 86400000
        THEN (to_timestamp(started / 1000) AT TIME ZONE 'UTC')::date ELSE n.today END AS day
        FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS today) AS n) AS t
$$;

-- Creates the partitions of a day. Attaching a table does not wait for readers and writers of other
-- partitions. The tables are always locked in this order, here and elsewhere, which avoids deadlocks.
CREATE FUNCTION midcourse.make_day(wanted date) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
    part text;
    other name;
BEGIN
    FOREACH name IN ARRAY ARRAY['records', 'bodies', 'reports', 'words'] LOOP
        part := name || to_char(wanted, '_YYYYMMDD');
        EXECUTE format('CREATE TABLE midcourse.%I (LIKE midcourse.%I INCLUDING DEFAULTS '
            'INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION)', part, name);
        EXECUTE format('ALTER TABLE midcourse.%I ATTACH PARTITION midcourse.%I '
            'FOR VALUES FROM (%L) TO (%L)', name, part,
            to_char(wanted, 'YYYY-MM-DD'), to_char(wanted + 1, 'YYYY-MM-DD'));
        PERFORM midcourse.without_statistics(format('midcourse.%I', part)::regclass);
        -- Without a policy: whoever has been granted all tables of the schema still reads runs only
        -- through the tables above, which have policies.
        EXECUTE format('ALTER TABLE midcourse.%I ENABLE ROW LEVEL SECURITY', part);
        -- Default privileges of the database may have given others rights, such as to create triggers.
        EXECUTE format('REVOKE ALL ON midcourse.%I FROM PUBLIC', part);
        FOR other IN SELECT DISTINCT r.rolname FROM pg_class AS c, aclexplode(c.relacl) AS a
            JOIN pg_roles AS r ON r.oid = a.grantee
            WHERE c.oid = format('midcourse.%I', part)::regclass AND a.grantee <> c.relowner
        LOOP
            EXECUTE format('REVOKE ALL ON midcourse.%I FROM %I', part, other);
        END LOOP;
    END LOOP;
    INSERT INTO midcourse.days VALUES (wanted);
END $$;

-- Creates the missing partitions of these days, and keeps all of them from being dropped until the
-- transaction ends. It locks rows: any role of the database could hold an advisory lock and block shippers.
CREATE FUNCTION midcourse.hold_days(wanted date[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    missing date[];
    this date;
BEGIN
    PERFORM FROM midcourse.days AS d WHERE d.day = ANY (wanted) ORDER BY d.day FOR KEY SHARE;
    IF NOT EXISTS (SELECT unnest(wanted) EXCEPT SELECT d.day FROM midcourse.days AS d) THEN
        RETURN;
    END IF;
    -- One transaction at a time creates partitions. Another one may have created these meanwhile.
    PERFORM FROM midcourse.version FOR UPDATE;
    PERFORM FROM midcourse.days AS d WHERE d.day = ANY (wanted) ORDER BY d.day FOR KEY SHARE;
    SELECT array_agg(w.day ORDER BY w.day) INTO missing
    FROM (SELECT unnest(wanted) EXCEPT SELECT d.day FROM midcourse.days AS d) AS w (day);
    -- Each partition takes locks, of which a server has a limited number.
    IF cardinality(missing) > 40 THEN
        RAISE program_limit_exceeded USING MESSAGE = 'a batch has runs of too many new days';
    END IF;
    FOREACH this IN ARRAY coalesce(missing, '{}') LOOP
        PERFORM midcourse.make_day(this);
    END LOOP;
END $$;

-- Creates the tables of this session into which a writer copies a batch. They belong to the owner of
-- the function, so the writer can only insert.
CREATE FUNCTION midcourse.make_staging() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    CREATE TEMPORARY TABLE staged_runs (
        n integer NOT NULL, run_id text NOT NULL, started bigint NOT NULL, level text NOT NULL,
        from_records bigint NOT NULL, from_reports bigint NOT NULL, from_link bytea NOT NULL,
        records bigint NOT NULL, reports bigint NOT NULL, link bytea NOT NULL,
        header jsonb, words integer[], buckets bigint[]
    ) ON COMMIT DELETE ROWS;
    CREATE TEMPORARY TABLE staged_records (
        n integer NOT NULL, seq bigint NOT NULL, at bigint NOT NULL,
        schema_version integer NOT NULL, redactions integer NOT NULL, failed boolean,
        bucket smallint NOT NULL, kind text NOT NULL, fact bytea, host text NOT NULL, channel text NOT NULL,
        decision_point text, link bytea NOT NULL, payload text NOT NULL,
        pointers bytea[], hashes bytea[], keys bytea[]
    ) ON COMMIT DELETE ROWS;
    CREATE TEMPORARY TABLE staged_reports (
        n integer NOT NULL, ordinal bigint NOT NULL, seq bigint NOT NULL, after bigint NOT NULL,
        at bigint NOT NULL, host text NOT NULL, channel text NOT NULL, status text NOT NULL,
        hash bytea NOT NULL, link bytea NOT NULL, zstd bytea NOT NULL
    ) ON COMMIT DELETE ROWS;
    CREATE TEMPORARY TABLE staged_bodies (
        n integer NOT NULL, key bytea NOT NULL, length bigint NOT NULL, zstd bytea NOT NULL
    ) ON COMMIT DELETE ROWS;
    ALTER TABLE pg_temp.staged_bodies ALTER COLUMN zstd SET STORAGE EXTERNAL;
    -- The same compression as in the target tables, so that values are not compressed again.
    BEGIN
        ALTER TABLE pg_temp.staged_records ALTER COLUMN payload SET COMPRESSION lz4;
        ALTER TABLE pg_temp.staged_runs ALTER COLUMN words SET COMPRESSION lz4,
            ALTER COLUMN buckets SET COMPRESSION lz4;
    EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN NULL;
    END;
    CREATE TEMPORARY TABLE staged_state (
        n integer NOT NULL, run bigint, day date, status text NOT NULL
    ) ON COMMIT DELETE ROWS;
    FOREACH name IN ARRAY ARRAY['runs', 'records', 'reports', 'bodies'] LOOP
        EXECUTE format('GRANT INSERT ON pg_temp.%I TO %I', 'staged_' || name, session_user);
    END LOOP;
END $$;

-- Takes what the session has copied into the staging tables, and returns how far each of these runs is
-- shipped, and the numbers of the project and the run. Writers can add to the tables only through this
-- function; its first call in a session creates the staging tables.
--
-- A part of a run is accepted only if it begins exactly where the last one ended: the numbers of
-- records and reports and the link must be those that were stored. The others are left out, and their
-- status says why:
--   shipped  accepted, or nothing was staged for the run
--   moved    the run is stored up to another position, which is returned
--   unknown  nothing of the run is stored, but the part does not begin at its start
--   other    another role ships the run
--   level    the run was shipped with another level before
--   dropped  the partitions of the run's day were dropped
CREATE FUNCTION midcourse.ship(in_project text, in_store text)
RETURNS TABLE (run_id text, status text, records bigint, reports bigint, link bytea,
    project integer, run bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET work_mem = '32MB'
-- The writer may have set another date style for its session.
SET datestyle = 'ISO, YMD' AS $$
#variable_conflict use_column
DECLARE
    in_p integer;
    found_bad text;
BEGIN
    SELECT p.project INTO in_p FROM midcourse.projects AS p
    WHERE p.name = in_project AND p.project IN (SELECT midcourse.allowed('write'));
    IF in_p IS NULL THEN
        RAISE insufficient_privilege USING MESSAGE =
            format('role %s may not ship to project %s', session_user, in_project);
    END IF;
    IF to_regclass('pg_temp.staged_runs') IS NULL THEN
        PERFORM midcourse.make_staging();
    END IF;
    -- Somebody may have made tables or views of these names before the first call. Reading them here,
    -- with the rights of the owner, would run their code.
    IF (SELECT count(*) FROM pg_class AS c
        WHERE c.relnamespace = pg_my_temp_schema() AND c.relkind = 'r'
        AND c.relowner = (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = current_user)
        AND c.relname IN ('staged_runs', 'staged_records', 'staged_reports', 'staged_bodies',
                          'staged_state')
        -- Default privileges of the database may have let the session create triggers on them.
        AND (pg_has_role(session_user, c.relowner, 'MEMBER')
             OR NOT has_table_privilege(session_user, c.oid, 'TRIGGER'))) <> 5 THEN
        RAISE insufficient_privilege USING MESSAGE = 'the staging tables are not ours';
    END IF;
    DELETE FROM pg_temp.staged_state;

    -- The statements below join by n and by run_id, so both have to be unique.
    IF (SELECT count(*) <> count(DISTINCT s.n) OR count(*) <> count(DISTINCT s.run_id) OR count(*) > 5000
        FROM pg_temp.staged_runs AS s) THEN
        RAISE integrity_constraint_violation USING MESSAGE =
            'a batch has two parts of a run, two runs with a number, or more than 5000 runs';
    END IF;
    -- A run without records would be in no list, but would keep others from using its id.
    IF EXISTS (SELECT FROM pg_temp.staged_runs AS s
        WHERE s.from_records = 0 AND s.from_reports = 0 AND s.records = 0 AND s.reports = 0) THEN
        RAISE integrity_constraint_violation USING MESSAGE = 'a batch has a run without records';
    END IF;

    -- Skipped for most small batches, because they continue runs that are stored.
    IF EXISTS (SELECT FROM pg_temp.staged_runs AS s WHERE s.from_records = 0 AND s.from_reports = 0) THEN
        PERFORM midcourse.hold_days(array_agg(DISTINCT midcourse.day_of(s.started)))
        FROM pg_temp.staged_runs AS s WHERE s.from_records = 0 AND s.from_reports = 0;
        INSERT INTO midcourse.runs
            (project, run_id, day, writer, store, level, records, reports, link)
        SELECT in_p, s.run_id, midcourse.day_of(s.started), session_user, in_store, s.level, 0, 0,
            s.from_link
        FROM pg_temp.staged_runs AS s WHERE s.from_records = 0 AND s.from_reports = 0
        ORDER BY s.run_id ON CONFLICT (project, run_id) DO NOTHING;
    END IF;

    -- Dynamic statements are planned with the sizes that the staging tables have now. Only runs of this
    -- writer are locked: whoever stages a run of another writer does not block it.
    EXECUTE 'INSERT INTO pg_temp.staged_state '
        'SELECT s.n, r.run, r.day, CASE '
        'WHEN r.is_dropped THEN ''dropped'' '
        'WHEN r.level <> s.level THEN ''level'' '
        'WHEN (r.records, r.reports, r.link) = (s.from_records, s.from_reports, s.from_link) '
        '    THEN ''shipped'' '
        'ELSE ''moved'' END FROM midcourse.runs AS r JOIN pg_temp.staged_runs AS s '
        'ON r.run_id = s.run_id WHERE r.project = $1 AND r.writer = session_user '
        'ORDER BY r.run FOR UPDATE OF r' USING in_p;

    EXECUTE 'SELECT s.run_id FROM pg_temp.staged_state AS t JOIN pg_temp.staged_runs AS s USING (n) '
        'LEFT JOIN (SELECT n, count(*) AS count, min(seq) AS first, max(seq) AS last '
        '    FROM pg_temp.staged_records GROUP BY n) AS r USING (n) '
        'LEFT JOIN (SELECT n, count(*) AS count, min(ordinal) AS first, max(ordinal) AS last '
        '    FROM pg_temp.staged_reports GROUP BY n) AS q USING (n) '
        'WHERE t.status = ''shipped'' AND ('
        's.records < s.from_records OR s.reports < s.from_reports '
        'OR coalesce(r.count, 0) <> s.records - s.from_records '
        'OR coalesce(q.count, 0) <> s.reports - s.from_reports '
        'OR r.first <> s.from_records OR r.last <> s.records - 1 '
        'OR q.first <> s.from_reports OR q.last <> s.reports - 1 '
        'OR length(s.from_link) <> 32 OR length(s.link) <> 32 OR NOT (s.link = s.from_link AND r.count IS NULL AND q.count IS NULL '
        '    OR EXISTS (SELECT FROM pg_temp.staged_records AS e WHERE e.n = s.n '
        '        AND e.seq = s.records - 1 AND e.link = s.link) '
        '    OR EXISTS (SELECT FROM pg_temp.staged_reports AS e WHERE e.n = s.n '
        '        AND e.ordinal = s.reports - 1 AND e.link = s.link)) '
        ') LIMIT 1'
        INTO found_bad;
    IF found_bad IS NOT NULL THEN
        RAISE integrity_constraint_violation USING MESSAGE =
            format('the part of run %s does not continue its hash chain', found_bad);
    END IF;
    -- Lists read the headers of many runs, so a header must have what a list needs, and must be small.
    SELECT s.run_id INTO found_bad FROM pg_temp.staged_runs AS s
    WHERE s.header IS NOT NULL AND ((s.header #>> '{summary,run_id}') IS DISTINCT FROM s.run_id
        OR midcourse.number(s.header, 'summary', 'records') IS DISTINCT FROM s.records
        OR midcourse.number(s.header, 'reports') IS DISTINCT FROM s.reports
        OR (s.header ->> 'link') IS DISTINCT FROM encode(s.link, 'hex')
        OR (midcourse.number(s.header, 'summary', 'started') >= 0
            AND midcourse.number(s.header, 'summary', 'latest') >= 0
            AND jsonb_typeof(s.header #> '{summary,host}') = 'string') IS NOT TRUE
        -- Sums over many runs must not overflow.
        OR EXISTS (SELECT FROM unnest(ARRAY['started', 'latest', 'ended', 'calls', 'errors', 'deliveries',
                'shadow_deliveries', 'cleared', 'ignored', 'cost']) AS name
            WHERE abs(midcourse.number(s.header, 'summary', name)) > 1000000000000000)
        OR EXISTS (SELECT FROM unnest(ARRAY['input_tokens', 'output_tokens', 'cache_creation_input_tokens',
                'cache_read_input_tokens']) AS name
            WHERE abs(midcourse.number(s.header, 'summary', 'tokens', name)) > 1000000000000000)
        OR NOT coalesce(midcourse.number(s.header, 'depth'), 0) BETWEEN 0 AND 1000000
        OR NOT coalesce(midcourse.number(s.header, 'open_calls'), 0) BETWEEN 0 AND 1000000000000000
        OR octet_length(s.header::text) > 1048576) LIMIT 1;
    IF found_bad IS NOT NULL THEN
        RAISE integrity_constraint_violation USING MESSAGE =
            format('the header of run %s is not valid', found_bad);
    END IF;
    -- Refuse what a reader could not decode.
    IF EXISTS (SELECT FROM pg_temp.staged_records AS s WHERE length(s.link) <> 32
            OR least(s.at, s.schema_version, s.redactions) < 0
            OR octet_length(s.payload) > 67108864
            OR (cardinality(s.pointers), cardinality(s.keys))
                IS DISTINCT FROM (cardinality(s.hashes), cardinality(s.hashes)))
        OR EXISTS (SELECT FROM pg_temp.staged_reports AS s WHERE length(s.link) <> 32
            OR length(s.hash) <> 32 OR least(s.at, s.seq, s.after) < 0
            OR length(s.zstd) > 67108864) THEN
        RAISE integrity_constraint_violation USING MESSAGE =
            'a record or report is not valid, or larger than 64 MiB';
    END IF;
    -- Words that are not valid would make the searches of others fail.
    IF EXISTS (SELECT FROM pg_temp.staged_runs AS s WHERE array_ndims(s.words) > 1
            OR array_ndims(s.buckets) > 1 OR cardinality(s.buckets) <> cardinality(s.words)) THEN
        RAISE integrity_constraint_violation USING MESSAGE = 'the words of a run are not valid';
    END IF;
    -- A reader has all long texts of a record in memory. Only few records have several of them.
    IF EXISTS (SELECT FROM pg_temp.staged_records AS s WHERE cardinality(s.keys) > 1) AND EXISTS (
        SELECT FROM (SELECT s.n, s.seq, k.key, k.pointer FROM pg_temp.staged_records AS s,
                unnest(s.keys, s.pointers) AS k (key, pointer) WHERE cardinality(s.keys) > 1) AS r
            LEFT JOIN (SELECT DISTINCT b.n, b.key, b.length FROM pg_temp.staged_bodies AS b) AS b
            USING (n, key)
        GROUP BY n, seq
        HAVING count(b.length) <> count(*) OR count(DISTINCT r.pointer) <> count(*)
            OR sum(b.length) > 268435456) THEN
        RAISE integrity_constraint_violation USING MESSAGE =
            'the long texts of a record are not in its part, or are larger than 256 MiB together';
    END IF;
    IF EXISTS (SELECT FROM pg_temp.staged_bodies AS b
        WHERE NOT b.length BETWEEN 0 AND 67108864 OR length(b.zstd) > 67108864
            OR b.key <> sha256(int8send(b.length) || b.zstd)) THEN
        RAISE integrity_constraint_violation USING MESSAGE =
            'a long text has a wrong key, or is larger than 64 MiB';
    END IF;

    EXECUTE 'INSERT INTO midcourse.records '
        'SELECT t.day, t.run, s.seq, s.at, $1, s.schema_version, s.redactions, s.failed, s.bucket, '
        's.kind, s.fact, s.host, s.channel, s.decision_point, s.link, s.payload, s.pointers, s.hashes, s.keys '
        'FROM pg_temp.staged_records AS s JOIN pg_temp.staged_state AS t USING (n) '
        'WHERE t.status = ''shipped''' USING in_p;
    -- Statements for tables without rows are left out: a batch is often small, and to plan takes longer.
    IF EXISTS (SELECT FROM pg_temp.staged_bodies) THEN
        EXECUTE 'INSERT INTO midcourse.bodies '
            'SELECT DISTINCT ON (t.day, b.key) t.day, $1, b.key, b.length, b.zstd '
            'FROM pg_temp.staged_bodies AS b JOIN pg_temp.staged_state AS t USING (n) '
            'WHERE t.status = ''shipped'' ORDER BY t.day, b.key ON CONFLICT DO NOTHING' USING in_p;
    END IF;
    IF EXISTS (SELECT FROM pg_temp.staged_reports) THEN
        EXECUTE 'INSERT INTO midcourse.reports '
            'SELECT t.day, t.run, s.ordinal, s.seq, s.after, s.at, $1, s.host, s.channel, s.status, '
            's.hash, s.link, s.zstd '
            'FROM pg_temp.staged_reports AS s JOIN pg_temp.staged_state AS t USING (n) '
            'WHERE t.status = ''shipped''' USING in_p;
    END IF;
    EXECUTE 'INSERT INTO midcourse.words '
        'SELECT t.day, t.run, s.from_records, s.records, $1, s.words, s.buckets '
        'FROM pg_temp.staged_runs AS s JOIN pg_temp.staged_state AS t USING (n) '
        'WHERE t.status = ''shipped'' AND s.words IS NOT NULL AND s.records > s.from_records'
        USING in_p;
    EXECUTE 'UPDATE midcourse.runs AS r SET records = s.records, reports = s.reports, '
        'link = s.link, received = now(), header = coalesce(s.header, r.header) '
        'FROM pg_temp.staged_runs AS s JOIN pg_temp.staged_state AS t USING (n) '
        'WHERE r.run = t.run AND t.status = ''shipped''';

    RETURN QUERY SELECT s.run_id, coalesce(t.status, CASE WHEN EXISTS (SELECT FROM midcourse.runs AS o
            WHERE o.project = in_p AND o.run_id = s.run_id) THEN 'other' ELSE 'unknown' END),
        CASE WHEN t.status IN ('shipped', 'moved') THEN r.records END,
        CASE WHEN t.status IN ('shipped', 'moved') THEN r.reports END,
        CASE WHEN t.status IN ('shipped', 'moved') THEN r.link END,
        in_p, r.run
    FROM pg_temp.staged_runs AS s LEFT JOIN pg_temp.staged_state AS t USING (n)
        LEFT JOIN midcourse.runs AS r ON r.run = t.run;
END $$;

-- The ends of the hash chains of runs: of all runs in a project for its readers, of the runs that they
-- have shipped for writers. For `verify --against`.
CREATE FUNCTION midcourse.heads(in_project text)
RETURNS TABLE (run_id text, store text, records bigint, link bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.run_id, r.store, r.records, r.link FROM midcourse.runs AS r
    JOIN midcourse.projects AS p ON p.project = r.project
    WHERE p.name = $1 AND r.records > 0
    AND (p.project IN (SELECT midcourse.allowed('read'))
         OR r.writer = session_user AND p.project IN (SELECT midcourse.allowed('write')))
$$;

-- How much of a store its writer has shipped. A shipper compares it with its cursors when it connects, and
-- so notices that the fleet has lost runs, for example because a backup was restored.
CREATE FUNCTION midcourse.shipped(in_project text, in_store text)
RETURNS TABLE (runs bigint, records bigint, reports bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*), midcourse.clamped(coalesce(sum(r.records), 0)),
        midcourse.clamped(coalesce(sum(r.reports), 0))
    FROM midcourse.runs AS r JOIN midcourse.projects AS p ON p.project = r.project
    WHERE p.name = $1 AND p.project IN (SELECT midcourse.allowed('write'))
    AND r.store = $2 AND r.writer = session_user AND r.records > 0
$$;

-- The runs that may have a record or call with all of these words, and the buckets in which it may be
-- (NULL: in any). The runs of the latest day come first; within a day, those that were shipped last. The
-- function stops when it has enough runs, so that a frequent word does not make it read all of them. It has
-- the rights of the owner, because row-level security would keep the index on words from being used; it
-- checks the project.
CREATE FUNCTION midcourse.runs_with(in_project integer, wanted integer[], before_day date,
    before_run bigint, most integer)
RETURNS TABLE (day date, run bigint, buckets bigint)
-- The planner does not know that reading the words of every part is slow.
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashagg = off SET jit = off SET datestyle = 'ISO, YMD' AS $$
#variable_conflict use_column
DECLARE
    this date;
    got integer := 0;
    count integer;
BEGIN
    IF in_project NOT IN (SELECT midcourse.allowed('read')) THEN
        RETURN;
    END IF;
    FOR this IN SELECT d.day FROM midcourse.days AS d
        WHERE before_day IS NULL OR d.day <= before_day ORDER BY d.day DESC
    LOOP
        -- Not the partition by its name, because it may have been dropped meanwhile. The literal keeps
        -- the others out of the plan. Runs are sorted before their buckets are read, so that
        -- LIMIT saves reading the buckets of the remaining runs.
        RETURN QUERY EXECUTE format('SELECT %1$L::date, c.run, bit_or(c.common) FROM (SELECT s.run, CASE '
            'WHEN cardinality($1) > 1 THEN coalesce((SELECT bit_and(s.buckets[array_position(s.words, x)]) '
            '    FROM unnest($1) AS x), -1) END AS common '
            '    FROM (SELECT w.run, w.words, w.buckets FROM midcourse.words AS w '
            '        WHERE w.day = %1$L AND w.words @> $1 AND w.project = $2 '
            '        AND ($3 IS NULL OR $3 > %1$L OR w.run < $4) ORDER BY w.run DESC OFFSET 0) AS s '
            '    ORDER BY s.run DESC OFFSET 0) AS c '
            'WHERE c.common IS DISTINCT FROM 0 GROUP BY c.run ORDER BY c.run DESC LIMIT $5', this)
            USING wanted, in_project, before_day, before_run, most - got;
        GET DIAGNOSTICS count = ROW_COUNT;
        got := got + count;
        EXIT WHEN got >= most;
    END LOOP;
END $$;

REVOKE ALL ON SCHEMA midcourse FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA midcourse FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA midcourse FROM PUBLIC;
