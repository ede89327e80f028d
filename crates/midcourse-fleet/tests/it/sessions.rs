//! What a hostile writer can do with its session: objects of the names that the functions of the schema
//! use, settings, locks and times.

use midcourse_fleet::schema::Access;

use crate::staging::{STARTED, Staged, denied, ship, ship_one};
use crate::world::{Fleet, server};

/// SQL that creates a function of the writer which takes its access to everything if the owner of the
/// fleet ever runs it.
const TRAP: &str = "CREATE FUNCTION pg_temp.trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
    EXECUTE 'CREATE TABLE public.trapped AS SELECT current_user AS who'; RETURN NEW; END $$; \
    CREATE FUNCTION pg_temp.trap(v anyelement) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN \
    IF current_user <> session_user THEN RAISE 'trapped as %', current_user; END IF; \
    RETURN true; END $$;";

/// The definitions of the staging tables, as the owner makes them.
fn staging_tables(fleet: &Fleet<'_>) -> Vec<String> {
    let source = fleet.sql(
        "SELECT prosrc FROM pg_proc WHERE proname = 'make_staging' \
         AND pronamespace = 'midcourse'::regnamespace",
    );
    let tables = source.split("CREATE TEMPORARY TABLE ").skip(1);
    tables.map(|table| table.split(';').next().unwrap().to_owned()).collect()
}

#[test]
fn objects_in_the_temporary_schema_trap_nobody() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let tables = staging_tables(&fleet);
    assert_eq!(tables.len(), 5);
    let name = |table: &String| table.split_whitespace().next().unwrap().to_owned();
    // One of the tables, or all of them, are the writer's, with a trigger, a rule or a default that
    // runs its code; or they are views, or something else with the name.
    let mut attacks: Vec<String> = Vec::new();
    for table in &tables {
        let name = name(table);
        let create = format!("{TRAP} CREATE TEMP TABLE {table};");
        attacks.push(create.clone());
        attacks.push(format!(
            "{create} CREATE TRIGGER t BEFORE INSERT OR DELETE ON {name} FOR EACH ROW \
             EXECUTE FUNCTION pg_temp.trap();"
        ));
        attacks.push(format!(
            "{create} ALTER TABLE {name} ENABLE ROW LEVEL SECURITY; \
             CREATE POLICY p ON {name} USING (pg_temp.trap(n)); \
             GRANT ALL ON {name} TO PUBLIC;"
        ));
        attacks.push(format!("CREATE TEMP VIEW {name} AS SELECT 1 AS n;"));
        attacks.push(format!(
            "{TRAP} CREATE TEMP VIEW {name} AS SELECT 1 AS n WHERE pg_temp.trap(1);"
        ));
        attacks.push(format!("CREATE TEMP SEQUENCE {name};"));
        attacks.push(format!("CREATE TYPE pg_temp.{name} AS (n integer);"));
    }
    let all: String = tables.iter().map(|table| format!("CREATE TEMP TABLE {table};")).collect();
    attacks.push(format!("{TRAP} {all}"));
    let all_with_triggers: String = tables
        .iter()
        .map(|table| {
            format!(
                "CREATE TRIGGER t BEFORE INSERT OR DELETE ON {} FOR EACH ROW \
                 EXECUTE FUNCTION pg_temp.trap();",
                name(table)
            )
        })
        .collect();
    attacks.push(format!("{TRAP} {all} {all_with_triggers}"));
    for attack in &attacks {
        let mut writer = fleet.client("writer");
        writer.batch_execute(attack).unwrap();
        writer
            .query("SELECT midcourse.ship('p', 's')", &[])
            .expect_err(&format!("{attack}\nis taken for the staging tables of the owner"));
        // After the session is clean again, it can ship.
        writer.batch_execute("DISCARD ALL").unwrap();
        writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    }
    // The tables are exchanged after the first call.
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    assert_eq!(ship_one(&mut writer, &Staged::new("run", 0, 1)).unwrap(), "shipped");
    writer.batch_execute(&format!("DISCARD TEMP; {TRAP} {all} {all_with_triggers}")).unwrap();
    ship_one(&mut writer, &Staged::new("run", 1, 2)).unwrap_err();
    assert_eq!(
        fleet.sql("SELECT to_regclass('public.trapped'), count(*) FROM midcourse.runs"),
        "|1"
    );
}

#[test]
fn names_of_the_writer_are_not_used_by_the_functions() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    // A schema of the writer, and the temporary one, have what the functions use: tables of the
    // catalogue and of the schema, functions, operators, types and casts.
    let role = fleet.role("writer");
    fleet.sql(&format!("CREATE SCHEMA evil AUTHORIZATION {role}"));
    let mut writer = fleet.client("writer");
    let mut objects = TRAP.to_owned();
    for schema in ["evil", "pg_temp"] {
        for table in ["pg_class", "pg_roles", "access", "projects", "runs", "days", "version"] {
            objects += &format!("CREATE TABLE {schema}.{table} (n int);");
        }
        for function in ["allowed", "day_of", "number", "format", "to_regclass", "sha256", "now"] {
            for arguments in ["", "text", "bigint", "bytea", "VARIADIC text[]", "anyelement"] {
                objects += &format!(
                    "CREATE FUNCTION {schema}.{function}({arguments}) RETURNS text \
                     LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;"
                );
            }
        }
        objects += &format!(
            "CREATE FUNCTION {schema}.eq(bytea, bytea) RETURNS boolean LANGUAGE plpgsql \
             AS $$ BEGIN RAISE 'trapped'; END $$; \
             CREATE FUNCTION {schema}.eq(text, text) RETURNS boolean LANGUAGE plpgsql \
             AS $$ BEGIN RAISE 'trapped'; END $$; \
             CREATE OPERATOR {schema}.= (LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = {schema}.eq); \
             CREATE OPERATOR {schema}.= (LEFTARG = text, RIGHTARG = text, FUNCTION = {schema}.eq); \
             CREATE OPERATOR {schema}.<> (LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = {schema}.eq); \
             CREATE DOMAIN {schema}.date AS text; CREATE DOMAIN {schema}.numeric AS text; \
             CREATE DOMAIN {schema}.int8 AS text; CREATE DOMAIN {schema}.text AS integer;"
        );
    }
    writer.batch_execute(&objects).unwrap();
    for path in ["evil, pg_temp, pg_catalog, midcourse", "pg_temp, evil, pg_catalog", "evil", "''"]
    {
        writer.batch_execute(&format!("SET search_path = {path}")).unwrap();
        let staged = Staged::new(&format!("run in {path}").replace('\'', ""), 0, 2);
        writer.query("SELECT * FROM midcourse.ship('p', 's')", &[]).unwrap();
        writer.query("SELECT * FROM midcourse.heads('p')", &[]).unwrap();
        // Staging itself is done by the writer, with the names that it wants.
        writer.batch_execute("SET search_path = pg_catalog").unwrap();
        let mut transaction = writer.transaction().unwrap();
        transaction.batch_execute(&staged.sql()).unwrap();
        transaction.batch_execute(&format!("SET LOCAL search_path = {path}")).unwrap();
        let row = transaction
            .query_one("SELECT status FROM midcourse.ship('p'::pg_catalog.text, 's')", &[])
            .unwrap();
        assert_eq!(row.get::<_, &str>(0), "shipped");
        transaction.commit().unwrap();
    }
}

#[test]
fn settings_of_the_session_change_nothing() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    fleet.grant("q", "other", Access::Write);
    let settings = [
        "plan_cache_mode = force_generic_plan",
        "plan_cache_mode = force_custom_plan",
        "row_security = off",
        "quote_all_identifiers = on",
        "standard_conforming_strings = off",
        "backslash_quote = on",
        "transform_null_equals = on",
        "array_nulls = off",
        "bytea_output = escape",
        "DateStyle = 'SQL, DMY'",
        "DateStyle = 'Postgres, MDY'",
        "IntervalStyle = sql_standard",
        "TimeZone = 'Pacific/Kiritimati'",
        "client_encoding = LATIN1",
        "default_transaction_isolation = serializable",
        "default_transaction_isolation = 'repeatable read'",
        "default_transaction_deferrable = on",
        "enable_seqscan = off; SET enable_indexscan = off; SET enable_hashjoin = off",
        "constraint_exclusion = off; SET enable_partition_pruning = off",
        "check_function_bodies = off",
        "work_mem = '64kB'",
        "temp_buffers = 100",
        "synchronous_commit = off",
        "default_toast_compression = pglz",
        "midcourse.project = 'p'",
        "midcourse.anything = 'x'",
    ];
    for (n, setting) in settings.iter().enumerate() {
        let mut writer = fleet.client("writer");
        writer.batch_execute(&format!("SET {setting}")).unwrap();
        writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
        // Each on another day, whose partitions are made with the setting.
        let day = STARTED - i64::try_from(n).unwrap() * 40 * 86_400_000;
        let staged =
            |from, to| Staged { started: day, ..Staged::new(&format!("run{n}"), from, to) };
        assert_eq!(ship_one(&mut writer, &staged(0, 2)).unwrap(), "shipped", "{setting}");
        assert_eq!(ship_one(&mut writer, &staged(2, 3)).unwrap(), "shipped", "{setting}");
        assert_eq!(ship_one(&mut writer, &staged(2, 3)).unwrap(), "moved", "{setting}");
        denied(&mut writer, "SELECT midcourse.ship('q', 's')");
    }
    let days = fleet.sql(
        "SELECT count(*), count(DISTINCT r.run), bool_and(to_regclass('midcourse.records' \
         || to_char(r.day, '_YYYYMMDD')) = s.tableoid) \
         FROM midcourse.records AS s JOIN midcourse.runs AS r ON r.run = s.run AND r.day = s.day",
    );
    assert_eq!(days, format!("{}|{}|t", settings.len() * 3, settings.len()));
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    for sql in [
        "SET session_replication_role = replica",
        "SET SESSION AUTHORIZATION owner",
        "SET ROLE owner",
    ] {
        denied(&mut writer, sql);
    }
    writer.batch_execute("SET default_transaction_read_only = on").unwrap();
    ship_one(&mut writer, &Staged::new("read only", 0, 1)).unwrap_err();
}

#[test]
fn a_statement_that_is_cancelled_leaves_nothing() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    assert_eq!(ship_one(&mut writer, &Staged::new("run", 0, 1)).unwrap(), "shipped");
    let mut shipped = 1;
    for timeout in 1..40 {
        let sql = Staged::new("run", shipped, shipped + 300).sql();
        let mut transaction = writer.transaction().unwrap();
        transaction.batch_execute(&sql).unwrap();
        transaction.batch_execute(&format!("SET LOCAL statement_timeout = {timeout}")).unwrap();
        let done = transaction.query("SELECT midcourse.ship('p', 's')", &[]);
        match done {
            Ok(_) => {
                transaction.commit().unwrap();
                shipped += 300;
            }
            Err(_) => transaction.rollback().unwrap(),
        }
        let counted = fleet.sql(
            "SELECT r.records, (SELECT count(*) FROM midcourse.records), \
             (SELECT sum(end_seq - first_seq) FROM midcourse.words) FROM midcourse.runs AS r",
        );
        assert_eq!(counted, format!("{shipped}|{shipped}|{shipped}"));
    }
}

#[test]
fn times_make_a_limited_number_of_partitions() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    let count = || fleet.sql("SELECT count(*) FROM midcourse.days").parse::<u64>().unwrap();
    for (n, started) in
        [0, -1, i64::MIN, i64::MAX, 1_420_070_399_999, 99_999_999_999_999].into_iter().enumerate()
    {
        let staged = Staged { started, ..Staged::new(&format!("clock{n}"), 0, 1) };
        assert_eq!(ship_one(&mut writer, &staged).unwrap(), "shipped", "{started}");
    }
    assert_eq!(count(), 1, "runs with impossible times are put into the present day");
    // Many days at once would need more locks than a server has.
    let now = fleet.sql("SELECT (extract(epoch FROM now()) * 1000)::bigint");
    let now: i64 = now.parse().unwrap();
    let runs = |days: std::ops::Range<i32>| -> String {
        let run = |n: i32| {
            let started = now - i64::from(n) * 86_400_000;
            let header = "NULL".to_owned();
            Staged { n, started, header, ..Staged::new(&format!("day{n}"), 0, 1) }.sql()
        };
        days.map(run).collect()
    };
    let error = ship(&mut writer, &runs(1..60)).unwrap_err();
    assert!(error.contains("too many new days"), "{error}");
    assert_eq!(count(), 1);
    ship(&mut writer, &runs(50..90)).unwrap();
    // The last 62 days have their own partitions, and those before share that of their month.
    assert!((15..=17).contains(&count()), "{}", count());
    let possible = fleet.sql(
        "SELECT count(DISTINCT midcourse.day_of(day * 86400000::bigint)) FROM generate_series(-9, 99999) AS day",
    );
    assert!((190..400).contains(&possible.parse::<u64>().unwrap()), "{possible}");
}
