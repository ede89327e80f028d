//! What a hostile writer can do to a fleet: nothing but add to its own runs.

use midcourse::{RunCursor, RunFilter, RunId, RunOrder, RunTableQuery, SearchFilter};
use midcourse_fleet::schema::{self, Access};
use midcourse_fleet::{FleetReader, Level, LocalCopy, RunReader as _};
use postgres_server::OWNER;

use crate::runs::message;
use crate::staging::{STARTED, Staged, denied, header, link, record, ship, ship_one, words};
use crate::world::{Fleet, Machine, server};

/// Everything in the fleet, as one hash. Its tables are read without those of the catalogue.
fn state(fleet: &Fleet<'_>) -> String {
    fleet.sql(
        "SELECT md5(string_agg(t, E'\\n' ORDER BY t)) FROM (
            SELECT r::text AS t FROM midcourse.runs AS r UNION ALL
            SELECT r::text FROM midcourse.records AS r UNION ALL
            SELECT r::text FROM midcourse.reports AS r UNION ALL
            SELECT r::text FROM midcourse.bodies AS r UNION ALL
            SELECT r::text FROM midcourse.words AS r UNION ALL
            SELECT r::text FROM midcourse.days AS r UNION ALL
            SELECT r::text FROM midcourse.access AS r UNION ALL
            SELECT r::text FROM midcourse.projects AS r) AS all_rows",
    )
}

/// The tables of the schema, with their partitions.
fn tables(fleet: &Fleet<'_>) -> Vec<String> {
    let found = fleet.sql(
        "SELECT oid::regclass FROM pg_class WHERE relnamespace = 'midcourse'::regnamespace \
         AND relkind IN ('r', 'p') ORDER BY 1",
    );
    found.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_writer_can_only_ship() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    assert_eq!(ship_one(&mut writer, &Staged::new("run", 0, 2)).unwrap(), "shipped");
    let before = state(&fleet);
    let tables = tables(&fleet);
    assert!(tables.len() >= 12, "{tables:?}");
    for table in &tables {
        if table != "midcourse.version" {
            denied(&mut writer, &format!("SELECT * FROM {table}"));
            denied(&mut writer, &format!("COPY {table} TO STDOUT"));
            denied(&mut writer, &format!("BEGIN; LOCK {table} IN ACCESS SHARE MODE"));
            let grant = format!("GRANT DELETE ON {table} TO {}", fleet.role("writer"));
            denied(&mut writer, &grant);
        }
        for sql in [
            format!("INSERT INTO {table} DEFAULT VALUES"),
            format!("DELETE FROM {table}"),
            format!("TRUNCATE {table}"),
            format!("COPY {table} FROM STDIN"),
            format!("BEGIN; LOCK {table} IN ROW EXCLUSIVE MODE"),
            format!("SELECT FROM {table} FOR SHARE"),
            format!("DROP TABLE {table}"),
            format!("ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"),
            format!("CREATE INDEX ON {table} ((1))"),
            format!("CREATE RULE r AS ON INSERT TO {table} DO NOTHING"),
            format!("CREATE POLICY mine ON {table} USING (true)"),
        ] {
            denied(&mut writer, &sql);
        }
        let column = fleet.sql(&format!(
            "SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum = 1"
        ));
        denied(&mut writer, &format!("UPDATE {table} SET {column} = DEFAULT"));
    }
    for sql in [
        "SELECT midcourse.allowed('write')",
        "SELECT midcourse.day_of(0)",
        "SELECT midcourse.make_day(current_date)",
        "SELECT midcourse.make_staging()",
        "SELECT midcourse.runs_with(1, '{1}', NULL, 0, 1)",
        "SELECT nextval('midcourse.runs_run_seq')",
        "CREATE TABLE midcourse.mine (n int)",
        "CREATE VIEW midcourse.mine AS SELECT 1",
        "CREATE FUNCTION midcourse.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TYPE midcourse.mine AS (n int)",
        "CREATE OR REPLACE FUNCTION midcourse.allowed(may text) RETURNS SETOF integer \
         LANGUAGE sql AS 'SELECT 1'",
        "DROP SCHEMA midcourse CASCADE",
        "ALTER SCHEMA midcourse RENAME TO mine",
    ] {
        denied(&mut writer, sql);
    }
    // A function that is added later must not be left open by mistake.
    let callable = fleet.sql(&format!(
        "SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc \
         WHERE pronamespace = 'midcourse'::regnamespace \
         AND has_function_privilege('{}', oid, 'EXECUTE')",
        fleet.role("writer")
    ));
    assert_eq!(callable, "heads ship shipped");
    for table in ["staged_runs", "staged_records", "staged_reports", "staged_bodies"] {
        for sql in [
            format!("SELECT * FROM pg_temp.{table}"),
            format!("COPY pg_temp.{table} TO STDOUT"),
            format!("UPDATE pg_temp.{table} SET n = 1"),
            format!("DELETE FROM pg_temp.{table}"),
            format!("TRUNCATE pg_temp.{table}"),
            format!("DROP TABLE pg_temp.{table}"),
            format!("ALTER TABLE pg_temp.{table} ADD COLUMN mine int"),
            format!("CREATE INDEX ON pg_temp.{table} (n)"),
            format!("CREATE RULE r AS ON INSERT TO pg_temp.{table} DO NOTHING"),
            format!("CREATE TEMP TABLE child () INHERITS (pg_temp.{table})"),
            format!(
                "CREATE FUNCTION pg_temp.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'; \
                 CREATE TRIGGER t BEFORE INSERT ON pg_temp.{table} EXECUTE FUNCTION pg_temp.f()"
            ),
        ] {
            denied(&mut writer, &sql);
        }
    }
    denied(&mut writer, "INSERT INTO pg_temp.staged_state VALUES (0, 1, current_date, 'shipped')");
    assert_eq!(state(&fleet), before);
    assert_eq!(ship_one(&mut writer, &Staged::new("run", 2, 3)).unwrap(), "shipped");
}

#[test]
fn a_writer_adds_to_its_own_projects_and_runs_only() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    fleet.grant("p", "second", Access::Write);
    fleet.grant("q", "third", Access::Write);
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    assert_eq!(ship_one(&mut writer, &Staged::new("run", 0, 2)).unwrap(), "shipped");
    let before = state(&fleet);
    let mut second = fleet.client("second");
    second.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    for (from, to) in [(2, 3), (0, 2), (0, 1), (2, 2)] {
        assert_eq!(ship_one(&mut second, &Staged::new("run", from, to)).unwrap(), "other");
    }
    let replies = "SELECT records, reports, link FROM midcourse.ship('p', 's')";
    let mut transaction = second.transaction().unwrap();
    transaction.batch_execute(&Staged::new("run", 2, 3).sql()).unwrap();
    let row = transaction.query_one(replies, &[]).unwrap();
    assert_eq!(row.get::<_, Option<i64>>(0), None, "the end of another's run is not told");
    transaction.rollback().unwrap();
    for project in ["q", "none", "", "P", "p ", "p'; --"] {
        let error = second.query("SELECT midcourse.ship($1, 's')", &[&project]).unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{project}");
    }
    for sql in [
        "SELECT midcourse.ship(NULL, 's')",
        "SET midcourse.project = 'q'; SELECT midcourse.ship('q', 's')",
        "SET midcourse.project = 'q'; SELECT midcourse.ship('p', 's')",
    ] {
        denied(&mut second, sql);
    }
    second.batch_execute("RESET midcourse.project").unwrap();
    let heads = second.query("SELECT * FROM midcourse.heads('p')", &[]).unwrap();
    assert_eq!(heads.len(), 0, "the ends of another's runs are not told");
    // The rights are those of the login, whichever role it takes on.
    let group = format!("group_{}", fleet.database);
    fleet.sql(&format!("CREATE ROLE {group}; GRANT {group} TO {}", fleet.role("third")));
    let mut third = fleet.client("third");
    third.batch_execute(&format!("SET ROLE {group}")).unwrap();
    denied(&mut third, "SELECT midcourse.ship('q', 's')");
    fleet.sql(&format!("GRANT {} TO {}", fleet.role("writer"), fleet.role("third")));
    third.batch_execute(&format!("SET ROLE {}", fleet.role("writer"))).unwrap();
    third.batch_execute("SELECT midcourse.ship('p', 's'); RESET ROLE").unwrap();
    assert_eq!(ship_one(&mut third, &Staged::new("run", 2, 3)).unwrap(), "other");
    assert_eq!(state(&fleet), before);
    schema::revoke(&mut fleet.client(OWNER), "p", &fleet.role("writer")).unwrap();
    denied(&mut writer, "SELECT midcourse.ship('p', 's')");
}

#[test]
fn what_was_shipped_stays_as_it_is() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    assert_eq!(ship_one(&mut writer, &Staged::new("run", 0, 4)).unwrap(), "shipped");
    let before = state(&fleet);
    let good = || Staged::new("run", 4, 7);
    let moved = [
        Staged::new("run", 0, 4),
        Staged::new("run", 3, 5),
        Staged::new("run", 5, 7),
        Staged { from_link: link("other", 4), ..good() },
    ];
    for staged in moved {
        assert_eq!(ship_one(&mut writer, &staged).unwrap(), "moved", "{staged:?}");
    }
    let short = "'\\x00'::bytea".to_owned();
    let refused = [
        Staged { seqs: vec![4, 6], ..good() },
        Staged { seqs: vec![4, 4, 6], ..good() },
        Staged { seqs: vec![4, 5, 6, 6], ..good() },
        Staged { seqs: vec![3, 4, 5], ..good() },
        Staged { seqs: vec![5, 6, 7], ..good() },
        Staged { seqs: vec![], ..good() },
        Staged { seqs: vec![0], ..good() },
        Staged { to: 3, seqs: vec![], header: "NULL".to_owned(), ..good() },
        Staged { to: i64::MAX, ..good() },
        Staged { to: i64::MIN, seqs: vec![], header: "NULL".to_owned(), ..good() },
        Staged { link: short.clone(), header: header("run", 7, &short, "{}"), ..good() },
        Staged { to: 4, seqs: vec![], header: "NULL".to_owned(), ..good() },
        Staged { header: header("run", 8, &link("run", 7), "{}"), ..good() },
        Staged { header: header("run", 7, &link("run", 6), "{}"), ..good() },
        Staged { header: header("other", 7, &link("run", 7), "{}"), ..good() },
        Staged { header: "'{}'::jsonb".to_owned(), ..good() },
        Staged { header: "'null'::jsonb".to_owned(), ..good() },
        Staged { header: "'[1, \"summary\"]'::jsonb".to_owned(), ..good() },
        Staged {
            header: format!("{} || '{{\"reports\": 1}}'", header("run", 7, &link("run", 7), "{}")),
            ..good()
        },
    ];
    for staged in refused {
        ship_one(&mut writer, &staged).expect_err(&format!("{staged:?}"));
        assert_eq!(state(&fleet), before, "{staged:?}");
    }
    // Links of other lengths than 32 bytes: readers could not read the run.
    let bad_link = good().sql().replace(&link("run", 5), "'\\x0011'::bytea");
    // The same part twice, one of which shortens the run.
    let shorter = Staged { n: 1, header: "NULL".to_owned(), ..Staged::new("run", 4, 4) };
    // Two runs with one number, so that the records of one are those of the other.
    let second = Staged::new("second", 0, 3);
    let one_number = format!("{}{}", good().sql(), Staged { seqs: vec![], ..second }.sql());
    let report = "INSERT INTO pg_temp.staged_reports VALUES (0, 0, 1, 4, 1, 'h', 'hook', 'merged', \
                  '\\x00', '\\x00', '\\x00');";
    for sql in [
        bad_link,
        format!("{}{}", good().sql(), shorter.sql()),
        format!("{}{}", good().sql(), Staged { n: 1, ..good() }.sql()),
        one_number,
        format!("{}{report}", good().sql()),
        good().sql().replace(", 1, 0, NULL,", ", -1, 0, NULL,"),
        good().sql().replace(&format!("{STARTED}, 1, 0, NULL"), "-5, 1, 0, NULL"),
    ] {
        ship(&mut writer, &sql).expect_err(&sql);
        assert_eq!(state(&fleet), before, "{sql}");
    }
    // A second call in the transaction finds that everything is stored already.
    let mut transaction = writer.transaction().unwrap();
    transaction.batch_execute(&good().sql()).unwrap();
    let call = "SELECT status FROM midcourse.ship('p', 's')";
    assert_eq!(transaction.query_one(call, &[]).unwrap().get::<_, &str>(0), "shipped");
    assert_eq!(transaction.query_one(call, &[]).unwrap().get::<_, &str>(0), "moved");
    transaction.commit().unwrap();
    assert_eq!(fleet.sql("SELECT count(*), max(seq) FROM midcourse.records"), "7|6");
}

#[test]
fn nobody_can_replace_the_long_texts_of_others() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    // What the honest machine will ship.
    let machine = Machine::new();
    let mut store = machine.open();
    let text = "a long text that anybody can guess ".repeat(300);
    let mut event = message("honest", 0);
    event.payload = midcourse::TrajectoryPayload::MessageAppended {
        message: midcourse::AgentMessage::user(text),
    };
    store.append(event).unwrap();
    let (_, entries) = &crate::world::contents(&store)[0];
    let midcourse::ChainEntry::Record(it) = &entries[0] else { panic!("no record") };
    let zstd: String = it.bodies[0].zstd.iter().map(|byte| format!("{byte:02x}")).collect();
    fleet.grant("p", "attacker", Access::Write);
    let mut attacker = fleet.client("attacker");
    attacker.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    let key = |length: &str| format!("sha256(int8send({length}) || '\\x{zstd}'::bytea)");
    let length = it.bodies[0].length;
    for (n, (key, length, bytes)) in [
        (key(&length.to_string()), length.to_string(), "'\\x00'::bytea".to_owned()),
        (key(&length.to_string()), "3".to_owned(), format!("'\\x{zstd}'::bytea")),
        (format!("sha256('\\x{zstd}'::bytea)"), "3".to_owned(), format!("'\\x{zstd}'::bytea")),
        ("'\\x00'::bytea".to_owned(), "3".to_owned(), format!("'\\x{zstd}'::bytea")),
        (key("-1"), "-1".to_owned(), format!("'\\x{zstd}'::bytea")),
    ]
    .into_iter()
    .enumerate()
    {
        let staged = Staged::new(&format!("attack{n}"), 0, 1);
        let body =
            format!("INSERT INTO pg_temp.staged_bodies VALUES (0, {key}, {length}, {bytes});");
        ship(&mut attacker, &(staged.sql() + &body)).expect_err(&format!("attack {n}"));
    }
    machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    let mut reader = FleetReader::open(fleet.target("reader"), Some("p")).unwrap();
    let mut copy = LocalCopy::new().unwrap();
    assert!(copy.bring(&mut reader, &RunId::from("honest")).unwrap());
    assert_eq!(copy.store().verify_run(&RunId::from("honest")).unwrap(), Vec::new());
}

#[test]
fn a_hostile_header_harms_no_other_run() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    machine.open().append(message("honest", 0)).unwrap();
    machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    let nested = format!("{{\"x\": {}1{}}}", "[".repeat(200), "]".repeat(200));
    let fields = [
        r#"{"started": 99999999999999999999}"#,
        r#"{"started": -1}"#,
        r#"{"latest": 9223372036854775807}"#,
        r#"{"latest": -1}"#,
        r#"{"latest": 1e3}"#,
        r#"{"latest": 1e300}"#,
        r#"{"latest": 1.5}"#,
        r#"{"started": "1"}"#,
        r#"{"started": null}"#,
        r#"{"started": {}}"#,
        r#"{"calls": "NaN"}"#,
        r#"{"calls": "Infinity"}"#,
        r#"{"calls": -9223372036854775808}"#,
        r#"{"deliveries": 9223372036854775807, "shadow_deliveries": 9223372036854775807}"#,
        r#"{"tokens": {"input_tokens": 9223372036854775807, "output_tokens": 9223372036854775807}}"#,
        r#"{"tokens": [], "cost": true}"#,
        r#"{"host": null}"#,
        r#"{"host": 5}"#,
        r#"{"host": ["a", {"b": "c"}]}"#,
        r#"{"task": {"a": 1}, "folder": [], "model": false}"#,
        r#"{"outcome": 3, "findings": 3}"#,
        r#"{"findings": {"patterns": {"doom_loop": -1}}}"#,
        r#"{"parent_run_id": "honest"}"#,
        r#"{"parent_run_id": 7}"#,
        // JSON that Postgres accepts and other parsers do not.
        r#"{"x": 1e400}"#,
        nested.as_str(),
        r#"{"calls": 9223372036854775807}"#,
        r#"{"shadow_deliveries": 9223372036854775807, "deliveries": 1}"#,
        r#"{"latest": 9223372036854775807}"#,
    ];
    for (n, fields) in fields.iter().enumerate() {
        let run = format!("hostile{n}");
        let link = link(&run, 1);
        let staged = Staged { header: header(&run, 1, &link, fields), ..Staged::new(&run, 0, 1) };
        let _ = ship_one(&mut writer, &staged);
    }
    // A parent that is the run itself, and two that are each other's.
    for (run, parent) in [("self", "self"), ("one", "two"), ("two", "one")] {
        let parent = format!("{{\"parent_run_id\": \"{parent}\"}}");
        let header = header(run, 1, &link(run, 1), &parent);
        ship_one(&mut writer, &Staged { header, ..Staged::new(run, 0, 1) }).unwrap();
    }
    // A header of several megabytes would be read with every list of runs.
    let large = header("large", 1, &link("large", 1), "{}");
    let large = format!("jsonb_set({large}, '{{summary,task}}', to_jsonb(repeat('x', 9000000)))");
    let staged = Staged { header: large, ..Staged::new("large", 0, 1) };
    let error = ship_one(&mut writer, &staged).unwrap_err();
    assert!(error.contains("header of run large"), "{error}");
    // Bytes that are no UTF-8, in a run that has the words of the search.
    let bytes = record(0, 0, &link("bytes", 1), "'{\"kind\":\"turn_started\"}'")
        .replace("'turn_started', NULL", "'turn_started', '\\xff'::bytea");
    let words = words(&["message", "of", "honest"]);
    let staged = Staged { seqs: vec![], words, ..Staged::new("bytes", 0, 1) };
    let _ = ship(&mut writer, &(staged.sql() + &bytes));

    let mut reader = FleetReader::open(fleet.target("reader"), Some("p")).unwrap();
    let listed: Vec<String> = {
        let (mut listed, mut cursor) = (Vec::new(), RunCursor::START);
        loop {
            let (page, next) = reader.list_runs(&RunFilter::default(), cursor, 2).unwrap();
            if page.is_empty() {
                break listed;
            }
            listed.extend(page.into_iter().map(|it| it.run.run_id.as_str().to_owned()));
            cursor = next;
        }
    };
    assert!(listed.contains(&"honest".to_owned()), "{listed:?}");
    for order in [
        RunOrder::Started,
        RunOrder::Latest,
        RunOrder::Duration,
        RunOrder::Calls,
        RunOrder::Messages,
        RunOrder::Tokens,
        RunOrder::Cost,
    ] {
        let query = RunTableQuery {
            filter: RunFilter::default(),
            text: None,
            running_since: None,
            order,
            is_ascending: false,
            offset: 0,
            count: 100,
        };
        let (rows, _) = reader.run_table(&query).unwrap();
        assert!(rows.iter().any(|row| row.run.run_id.as_str() == "honest"), "{order:?}");
    }
    reader.hosts().unwrap();
    for run in ["honest", "self", "one"] {
        assert!(!reader.family(&RunId::from(run)).unwrap().is_empty());
    }
    let mut copy = LocalCopy::new().unwrap();
    assert!(copy.bring(&mut reader, &RunId::from("honest")).unwrap());
    let (hits, damage) =
        copy.search(&mut reader, "message honest", &SearchFilter::default(), 10).unwrap();
    assert!(hits.iter().any(|hit| hit.run_id.as_str() == "honest"), "{hits:?}");
    println!("{damage:?}");
    let period = (midcourse::Timestamp::default(), midcourse::Timestamp::from_unix_ms(u64::MAX));
    LocalCopy::new().unwrap().bring_period(&mut reader, period.0, period.1).unwrap();
    // The owner sees the days, and the clock of a machine does not keep them forever.
    let mut owner = fleet.client(OWNER);
    let days = schema::days(&mut owner).unwrap();
    let later = midcourse::Timestamp::from_unix_ms(4_000_000_000_000);
    for day in days {
        assert!(schema::drop_day(&mut owner, &day.day, later).unwrap(), "{day:?}");
    }
}
