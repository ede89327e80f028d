//! What a hostile reader can do: read its own project. And what hostile names and words do: nothing.

use midcourse::{RunCursor, RunFilter, RunId, RunOrder, RunTableQuery, SearchFilter};
use midcourse_fleet::schema::{self, Access};
use midcourse_fleet::{
    FleetError, FleetReader, IdPart, Level, LocalCopy, RunReader as _, ShipSettings, Shipper,
};
use postgres::Client;
use postgres_server::OWNER;
use proptest::prelude::*;
use std::io::Read as _;

use crate::runs::message;
use crate::staging::{denied, words};
use crate::world::{Fleet, Machine, contents, server};

const TABLES: [&str; 5] = ["projects", "runs", "records", "reports", "bodies"];

/// A fleet with the run `visible` in the project `p`, and the run `secret` in the project `q`, each with
/// a long text and a report.
fn two_projects(server: &postgres_server::Server) -> Fleet<'_> {
    let fleet = Fleet::new(server);
    fleet.grant("q", "writer", Access::Write);
    for (project, run) in [("p", "visible"), ("q", "secret")] {
        let machine = Machine::new();
        let mut store = machine.open();
        for n in 0..3 {
            let mut event = message(run, n);
            if n == 2 {
                event.payload = midcourse::TrajectoryPayload::MessageAppended {
                    message: midcourse::AgentMessage::user(format!("{run} ").repeat(2_000)),
                };
            }
            store.append(event).unwrap();
        }
        let mut shipper = machine.shipper_as(&fleet, "writer", project, Level::Full);
        assert_eq!(shipper.ship(|_| ()).unwrap().records, 3);
    }
    fleet.sql(
        "INSERT INTO midcourse.reports SELECT day, run, 0, 0, 1, 1, project, 'h', 'hook', 'merged', \
         '\\x00', '\\x00', '\\x00' FROM midcourse.runs",
    );
    fleet
}

fn copy_out(client: &mut Client, sql: &str) -> String {
    let mut text = String::new();
    client.copy_out(sql).unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_reader_can_only_read() {
    let Some(server) = server() else { return };
    let fleet = two_projects(server);
    let mut reader = fleet.client("reader");
    let tables = fleet.sql(
        "SELECT oid::regclass FROM pg_class WHERE relnamespace = 'midcourse'::regnamespace \
         AND relkind IN ('r', 'p') ORDER BY 1",
    );
    for table in tables.lines() {
        let name = table.trim_start_matches("midcourse.");
        if !TABLES.contains(&name) && name != "version" {
            denied(&mut reader, &format!("SELECT * FROM {table}"));
            denied(&mut reader, &format!("COPY {table} TO STDOUT"));
        }
        for sql in [
            format!("INSERT INTO {table} DEFAULT VALUES"),
            format!("DELETE FROM {table}"),
            format!("TRUNCATE {table}"),
            format!("COPY {table} FROM STDIN"),
            format!("SELECT FROM {table} FOR KEY SHARE"),
            format!("BEGIN; LOCK {table} IN ROW SHARE MODE"),
            format!("ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"),
            format!("CREATE POLICY mine ON {table} USING (true)"),
            format!("CREATE INDEX ON {table} ((1))"),
        ] {
            denied(&mut reader, &sql);
        }
    }
    for sql in [
        "SELECT midcourse.ship('p', 's')",
        "SELECT midcourse.make_staging()",
        "SELECT midcourse.make_day(current_date)",
        "SELECT midcourse.hold_days(ARRAY[current_date])",
        "SELECT midcourse.day_of(0)",
        "CREATE TABLE midcourse.mine (n int)",
        "CREATE VIEW midcourse.mine AS SELECT 1",
    ] {
        denied(&mut reader, sql);
    }
    let callable = fleet.sql(&format!(
        "SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc \
         WHERE pronamespace = 'midcourse'::regnamespace \
         AND has_function_privilege('{}', oid, 'EXECUTE')",
        fleet.role("reader")
    ));
    assert_eq!(callable, "allowed heads runs_with");
}

#[test]
fn a_reader_sees_no_row_of_another_project() {
    let Some(server) = server() else { return };
    let fleet = two_projects(server);
    let hidden: i32 =
        fleet.sql("SELECT project FROM midcourse.projects WHERE name = 'q'").parse().unwrap();
    let mut reader = fleet.client("reader");
    // A cheap function that tells every row that it gets to see, and an operator and a cast with it.
    reader
        .batch_execute(
            "CREATE FUNCTION pg_temp.tell(v anyelement) RETURNS boolean LANGUAGE plpgsql COST 0.0001 \
             AS $$ BEGIN RAISE NOTICE '%', v; PERFORM set_config('my.seen', \
             coalesce(current_setting('my.seen', true), '') || v::text, false); RETURN true; END $$",
        )
        .unwrap();
    for settings in ["", "q", "p", "'; --"] {
        reader.execute("SELECT set_config('midcourse.project', $1, false)", &[&settings]).unwrap();
        let expected = if ["", "p"].contains(&settings) { 1 } else { 0 };
        for table in TABLES {
            let query = format!("SELECT count(DISTINCT project) FROM midcourse.{table}");
            let count: i64 = reader.query_one(&query, &[]).unwrap().get(0);
            assert_eq!(count, expected, "{table} with {settings}");
            let other = format!("SELECT FROM midcourse.{table} WHERE project = {hidden}");
            assert_eq!(reader.query(&other, &[]).unwrap().len(), 0);
            let told = format!("SELECT FROM midcourse.{table} AS t WHERE pg_temp.tell(t::text)");
            reader.query(&told, &[]).unwrap();
            let joined = format!(
                "SELECT FROM midcourse.{table} AS t JOIN midcourse.runs AS r ON pg_temp.tell(r::text) \
                 AND pg_temp.tell(t::text)"
            );
            reader.query(&joined, &[]).unwrap();
            let text =
                copy_out(&mut reader, &format!("COPY (SELECT * FROM midcourse.{table}) TO STDOUT"));
            let copied = copy_out(&mut reader, &format!("COPY midcourse.{table} TO STDOUT"));
            assert!(!text.contains("secret") && !copied.contains("secret"));
            let plan = format!(
                "EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM midcourse.{table} AS t \
                 WHERE pg_temp.tell(t::text) AND project = {hidden}"
            );
            let plan: String = reader
                .query(&plan, &[])
                .unwrap()
                .iter()
                .map(|row| row.get::<_, String>(0))
                .collect();
            assert!(!plan.contains("secret"), "{plan}");
        }
        let secret = words(&["secret"]);
        for wanted in [secret.as_str(), "'{}'", "NULL"] {
            for project in [hidden.to_string().as_str(), "NULL"] {
                let sql =
                    format!("SELECT FROM midcourse.runs_with({project}, {wanted}, NULL, 0, NULL)");
                assert_eq!(reader.query(&sql, &[]).unwrap().len(), 0, "{sql}");
            }
        }
        assert_eq!(reader.query("SELECT FROM midcourse.heads('q')", &[]).unwrap().len(), 0);
    }
    let seen: String = reader.query_one("SELECT current_setting('my.seen')", &[]).unwrap().get(0);
    assert!(seen.contains("visible") && !seen.contains("secret"));
    fleet.sql("ANALYZE");
    let statistics =
        reader.query_one("SELECT coalesce(string_agg(s::text, ''), '') FROM pg_stats AS s", &[]);
    assert!(!statistics.unwrap().get::<_, String>(0).contains("secret"));
    reader.batch_execute("SET row_security = off").unwrap();
    denied(&mut reader, "SELECT * FROM midcourse.runs");
    let refused = FleetReader::open(fleet.target("reader"), Some("q")).err().unwrap();
    assert!(refused.to_string().contains("there is no project `q`"), "{refused}");
    schema::revoke(&mut fleet.client(OWNER), "p", &fleet.role("reader")).unwrap();
    reader.batch_execute("RESET row_security; SET midcourse.project = ''").unwrap();
    for table in TABLES {
        let rows = reader.query(&format!("SELECT FROM midcourse.{table}"), &[]).unwrap();
        assert_eq!(rows.len(), 0, "after the access was taken away");
    }
}

/// Texts that would do harm if they became a part of SQL or of a format.
fn hostile_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("'".to_owned()),
        Just("\"".to_owned()),
        Just(";".to_owned()),
        Just("\\".to_owned()),
        Just("\0".to_owned()),
        Just("$$".to_owned()),
        Just("%s%I%1$L".to_owned()),
        Just("--".to_owned()),
        Just("/*".to_owned()),
        Just("; DROP SCHEMA midcourse CASCADE; --".to_owned()),
        Just("'); DROP SCHEMA midcourse CASCADE; --".to_owned()),
        Just("{\"a\", NULL}".to_owned()),
        Just("\u{202e}\u{feff}’é\u{10ffff}".to_owned()),
        Just("\n\r\t".to_owned()),
        "[a-z]{0,8}",
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

#[test]
fn names_and_words_are_never_sql() {
    let Some(server) = server() else { return };
    let fleet = two_projects(server);
    let config = ProptestConfig { cases: 60, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let strategy = prop::collection::vec(hostile_text(), 6);
    runner
        .run(&strategy, |texts| {
            let [id, host, name, words, project, role] = &texts[..] else { unreachable!() };
            let mut owner = fleet.client(OWNER);
            let machine = Machine::new();
            let mut store = machine.open();
            // The id must be one that nobody has.
            let id = format!("{}{id}", uuid::Uuid::new_v4());
            let mut event = message(&id, 0);
            event.source = midcourse::Source::new(host.as_str(), midcourse::Channel::Hook);
            event.payload = midcourse::TrajectoryPayload::ToolStarted {
                tool_call_id: words.as_str().into(),
                tool_name: name.as_str().into(),
                args: serde_json::json!({ words: words }),
            };
            if store.append(event).is_ok() {
                let progress = machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
                let has_nul = contents(&store).iter().any(|it| format!("{it:?}").contains("\\0"));
                prop_assert!(progress.refused.is_empty() || has_nul, "{:?}", progress);
                let mut reader = FleetReader::open(fleet.target("reader"), None).unwrap();
                let found = reader.find_runs(&id, IdPart::Whole, 2).unwrap();
                prop_assert_eq!(found.len(), usize::try_from(progress.records).unwrap());
                for part in [IdPart::Start, IdPart::End] {
                    reader.find_runs(&id, part, 5).unwrap();
                }
                let filter = RunFilter {
                    host: Some(host.clone()),
                    folder: Some(words.clone()),
                    ..RunFilter::default()
                };
                reader.list_runs(&filter, RunCursor::START, 5).unwrap();
                let table = RunTableQuery {
                    filter,
                    text: Some(words.clone()),
                    running_since: None,
                    order: RunOrder::Cost,
                    is_ascending: true,
                    offset: 0,
                    count: 5,
                };
                reader.run_table(&table).unwrap();
                reader.family(&RunId::from(id.as_str())).unwrap();
                let mut copy = LocalCopy::new().unwrap();
                // The words may be no valid search, which is not about the database.
                let searched = copy.search(&mut reader, words, &SearchFilter::default(), 5);
                prop_assert!(!matches!(searched, Err(FleetError::Server(_) | FleetError::Data(_))));
                prop_assert!(schema::delete_run(&mut owner, "p", &id).unwrap() <= 1);
            }
            let settings = ShipSettings { project: project.clone(), level: Level::Full };
            if store.chain_ends().unwrap().is_empty() {
                store.append(message("run", 0)).unwrap();
            }
            let shipper = Shipper::open(&machine.data_dir(), fleet.target("writer"), settings);
            let shipped = shipper.unwrap().unwrap().ship(|_| ());
            let is_real = project == "p" || project == "q";
            prop_assert!(is_real || shipped.map_or(true, |progress| progress.records == 0));
            prop_assert!(schema::revoke(&mut owner, project, role).map_or(true, |it| !it));
            schema::delete_run(&mut owner, project, role).unwrap();
            // Roles belong to the whole server, so the names must not collide with those of tests.
            let role = format!("{}{role}", fleet.role("x"));
            let granted = schema::grant(&mut owner, project, &role, Access::Read, true);
            if let Err(error) = &granted {
                let is_clear = matches!(error, FleetError::Name(_));
                prop_assert!(is_clear, "{:?}: {}", error, error);
            } else {
                let rows =
                    owner.query("SELECT FROM pg_roles WHERE rolname::text = $1", &[&role]).unwrap();
                prop_assert_eq!(rows.len(), 1);
                prop_assert!(schema::revoke(&mut owner, project, &role).unwrap());
            }
            Ok(())
        })
        .unwrap();
    let left = fleet.sql("SELECT count(*), count(DISTINCT project) FROM midcourse.runs");
    assert_eq!(left, "2|2");
    for (project, role) in
        [("p", ""), ("", "r"), ("P", "r"), ("p\n", "r"), ("-p", "r"), ("p", "a\0b")]
    {
        let error = schema::grant(&mut fleet.client(OWNER), project, role, Access::Read, true);
        assert!(matches!(error, Err(FleetError::Name(_))), "{project} {role}: {error:?}");
    }
    for role in ["public", "none", "pg_monitor2", "current_user"] {
        schema::grant(&mut fleet.client(OWNER), "p", role, Access::Read, false).unwrap_err();
    }
}

#[test]
fn the_password_of_a_new_role_is_in_no_statement() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    fleet.sql(&format!("ALTER DATABASE {} SET log_statement = 'all'", fleet.database));
    let mut owner = fleet.client(OWNER);
    let role = fleet.role("new");
    let granted = schema::grant(&mut owner, "p", &role, Access::Read, true).unwrap();
    let password = granted.password.unwrap();
    let log = std::fs::read_to_string(server.folder().join("log")).unwrap();
    assert!(log.contains(&format!("CREATE ROLE {role}")), "the log has the statement");
    assert!(!log.contains(&password), "the log has the password");
    let verifier =
        fleet.sql(&format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{role}'"));
    assert!(verifier.starts_with("SCRAM-SHA-256$"), "{verifier}");
}
