//! What the function `midcourse.ship` refuses, and what it does not let a session change.

use crate::staging::{Staged, header, link, record, ship, ship_one};
use crate::world::{Fleet, server};

#[test]
fn the_date_style_of_a_writer_changes_no_partition() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut writer = fleet.client("writer");
    writer.batch_execute("SET datestyle = 'German, MDY'").unwrap();
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    // The session writes the day before the month and reads the month first, so the fourth of a month
    // would become another day.
    let day = "date_trunc('month', now() AT TIME ZONE 'UTC' - interval '40 days')::date + 3";
    let ms = format!("SELECT (extract(epoch FROM {day}) * 1000)::bigint");
    let started = fleet.sql(&ms).parse().unwrap();
    ship_one(&mut writer, &Staged { started, ..Staged::new("run", 0, 1) }).unwrap();
    let bounds = fleet.sql(&format!(
        "SELECT pg_get_expr(relpartbound, oid) = format('FOR VALUES FROM (%L) TO (%L)', {day}, {day} + 1) \
         FROM pg_class WHERE relname = 'records' || to_char({day}, '_YYYYMMDD')"
    ));
    assert_eq!(bounds, "t");
}

#[test]
fn the_planner_knows_nothing_of_what_writers_ship() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    for n in 0..50 {
        ship_one(&mut writer, &Staged::new(&format!("run{n}"), 0, 3)).unwrap();
    }
    fleet.sql("ANALYZE");
    let known = fleet.sql(
        "SELECT string_agg(DISTINCT attname, ' ' ORDER BY attname) FROM pg_stats \
         WHERE schemaname = 'midcourse' AND tablename ~ '^(runs|records|reports|bodies|words)'",
    );
    assert_eq!(known, "day project run seq started");
}

#[test]
fn default_privileges_open_no_partition() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let other = fleet.role("other");
    fleet.sql(&format!("CREATE ROLE {other} LOGIN"));
    fleet.sql(&format!(
        "ALTER DEFAULT PRIVILEGES GRANT TRIGGER, SELECT, TRUNCATE ON TABLES TO {other}, PUBLIC"
    ));
    // For PUBLIC they are taken back: the server refuses staging tables on which the writer may create
    // triggers.
    fleet.sql("ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM PUBLIC");
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    ship_one(&mut writer, &Staged::new("run", 0, 1)).unwrap();
    let granted = fleet.sql(&format!(
        "SELECT count(*), count(*) FILTER (WHERE has_table_privilege('{other}', c.oid, \
         'SELECT, INSERT, TRIGGER, TRUNCATE')) FROM pg_class AS c \
         WHERE c.relnamespace = 'midcourse'::regnamespace AND c.relispartition AND c.relkind = 'r'"
    ));
    assert_eq!(granted, "4|0");
}

#[test]
fn what_readers_could_not_bear_is_refused() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    let empty = Staged {
        header: header("empty", 0, &link("empty", 0), "{}"),
        link: link("empty", 0),
        ..Staged::new("empty", 0, 0)
    };
    let error = ship_one(&mut writer, &empty).unwrap_err();
    assert!(error.contains("without records"), "{error}");
    let words = "ARRAY[ARRAY[1, 2]]".to_owned();
    let error = ship_one(&mut writer, &Staged { words, ..Staged::new("words", 0, 1) }).unwrap_err();
    assert!(error.contains("words of a run"), "{error}");
    for fields in [r#"{"calls": 9223372036854775807}"#, r#"{"latest": 9223372036854775807}"#] {
        let header = header("run", 1, &link("run", 1), fields);
        let error = ship_one(&mut writer, &Staged { header, ..Staged::new("run", 0, 1) });
        assert!(error.is_err_and(|error| error.contains("header of run")), "{fields}");
    }
    // A record has a text of 60 MB ten times; it has the text ten times at one place; and it has a text
    // that was not staged.
    let text = zstd::bulk::compress(&vec![b'0'; 60_000_000], 1).unwrap();
    let text: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = format!("sha256(int8send(60000000) || '\\x{text}'::bytea)");
    let body =
        format!("INSERT INTO pg_temp.staged_bodies VALUES (0, {key}, 60000000, '\\x{text}');");
    let hash = "decode(repeat('00', 32), 'hex')";
    let records = |pointers: &str, body: &str| {
        let row = record(0, 0, &link("run", 1), "'{\"kind\":\"turn_started\"}'").replace(
            "NULL, NULL, NULL);",
            &format!(
                "(SELECT array_agg({pointers}) FROM generate_series(1, 10) AS n), \
                 array_fill({hash}, ARRAY[10]), array_fill({key}, ARRAY[10]));"
            ),
        );
        Staged { seqs: vec![], ..Staged::new("run", 0, 1) }.sql() + &row + body
    };
    for (pointers, body) in
        [("('/' || n)::bytea", body.as_str()), ("'/a'::bytea", &body), ("('/' || n)::bytea", "")]
    {
        let error = ship(&mut writer, &records(pointers, body)).unwrap_err();
        assert!(error.contains("long texts of a record"), "{error}");
    }
}
