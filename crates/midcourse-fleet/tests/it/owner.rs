//! What a writer cannot do to the owner, to readers and to other writers.

use midcourse_fleet::schema::{self, Access};
use midcourse_fleet::{FleetReader, Level, LocalCopy, RunReader as _};
use postgres_server::OWNER;

use crate::runs::message;
use crate::staging::{Staged, record, ship_one};
use crate::world::{Fleet, Machine, server};

/// What a writer may create where every role may create objects in the schema `public`, as in databases
/// of Postgres 14 and older. Each function has the types of a call in midcourse's queries exactly, and
/// would be preferred to the one of Postgres, which needs a conversion.
const TRAPS: &str = "\
    CREATE FUNCTION public.trap() RETURNS void LANGUAGE plpgsql \
        AS $$ BEGIN RAISE 'trapped as %', current_user; END $$; \
    CREATE FUNCTION public.times(numeric, integer) RETURNS numeric LANGUAGE plpgsql \
        AS $$ BEGIN PERFORM public.trap(); RETURN 0; END $$; \
    CREATE OPERATOR public.* (LEFTARG = numeric, RIGHTARG = integer, FUNCTION = public.times); \
    CREATE FUNCTION public.compares(numeric, bigint) RETURNS boolean LANGUAGE plpgsql \
        AS $$ BEGIN PERFORM public.trap(); RETURN true; END $$; \
    CREATE OPERATOR public.> (LEFTARG = numeric, RIGHTARG = bigint, FUNCTION = public.compares); \
    CREATE OPERATOR public.< (LEFTARG = numeric, RIGHTARG = bigint, FUNCTION = public.compares); \
    CREATE FUNCTION public.to_char(date, text) RETURNS text LANGUAGE plpgsql \
        AS $$ BEGIN PERFORM public.trap(); RETURN ''; END $$;";

#[test]
fn functions_in_the_schema_public_trap_nobody() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    let mut store = machine.open();
    (0..3).for_each(|n| drop(store.append(message("run", n)).unwrap()));
    machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    fleet.sql("GRANT CREATE ON SCHEMA public TO PUBLIC");
    let mut writer = fleet.client("writer");
    writer.batch_execute(TRAPS).unwrap();
    let mut owner = fleet.client(OWNER);
    assert_eq!(schema::days(&mut owner).unwrap().len(), 1);
    store.append(message("run", 3)).unwrap();
    machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    let mut reader = FleetReader::open(fleet.target("reader"), Some("p")).unwrap();
    let mut copy = LocalCopy::new().unwrap();
    assert!(copy.bring(&mut reader, &"run".into()).unwrap());
    assert_eq!(reader.find_runs("run", midcourse_fleet::IdPart::Whole, 2).unwrap().len(), 1);
    let end = midcourse::Timestamp::from_unix_ms(u64::MAX >> 1);
    let day = schema::days(&mut owner).unwrap()[0].day.clone();
    assert!(schema::drop_day(&mut owner, &day, end).unwrap());
    // The owner may also look with another program, which has the usual search path.
    fleet.sql("UPDATE midcourse.runs SET received = now()");
}

#[test]
fn a_grant_on_all_tables_shows_no_other_project() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let machine = Machine::new();
    (0..3).for_each(|n| drop(machine.open().append(message("run", n)).unwrap()));
    machine.shipper(&fleet, Level::Full).ship(|_| ()).unwrap();
    fleet.grant("q", "curious", Access::Read);
    let role = fleet.role("curious");
    fleet.sql(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA midcourse TO {role}"));
    let mut curious = fleet.client("curious");
    let tables = fleet.sql(
        "SELECT c.oid::regclass FROM pg_class AS c WHERE relnamespace = 'midcourse'::regnamespace \
         AND relkind IN ('r', 'p') AND EXISTS (SELECT FROM pg_attribute AS a \
         WHERE a.attrelid = c.oid AND a.attname = 'project') AND c.relname <> 'access'",
    );
    assert!(tables.contains("midcourse.records_"), "{tables}");
    for table in tables.lines().filter(|table| *table != "midcourse.projects") {
        assert_eq!(
            curious.query(&format!("SELECT FROM {table}"), &[]).unwrap().len(),
            0,
            "{table}"
        );
    }
}

#[test]
fn default_privileges_of_the_database_do_not_open_the_staging_tables() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    fleet.sql(&format!("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {}", fleet.role("writer")));
    let mut writer = fleet.client("writer");
    let error = writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap_err();
    assert!(format!("{error:?}").contains("the staging tables are not ours"), "{error:?}");
}

#[test]
fn a_writer_that_holds_a_transaction_open_blocks_no_run_of_another() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    fleet.grant("p", "second", Access::Write);
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    assert_eq!(ship_one(&mut writer, &Staged::new("run", 0, 2)).unwrap(), "shipped");
    let mut second = fleet.client("second");
    second.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    let mut open = second.transaction().unwrap();
    open.batch_execute(&Staged::new("run", 2, 3).sql()).unwrap();
    let status = open.query_one("SELECT status FROM midcourse.ship('p', 's')", &[]).unwrap();
    assert_eq!(status.get::<_, &str>(0), "other");
    // Fails at once if the row is locked.
    writer.batch_execute("SET lock_timeout = '1ms'").unwrap();
    assert_eq!(ship_one(&mut writer, &Staged::new("run", 2, 3)).unwrap(), "shipped");
}

#[test]
fn what_no_store_records_is_too_large() {
    let Some(server) = server() else { return };
    let fleet = Fleet::new(server);
    let mut writer = fleet.client("writer");
    writer.query("SELECT midcourse.ship('p', 's')", &[]).unwrap();
    let mut staged = Staged::new("run", 0, 1);
    staged.seqs.clear();
    let large = "repeat('x', 67108865)";
    let sql = staged.sql() + &record(0, 0, &staged.link, large);
    let error = crate::staging::ship(&mut writer, &sql).unwrap_err();
    assert!(error.contains("larger than 64 MiB"), "{error}");
    let body = "INSERT INTO pg_temp.staged_bodies \
                VALUES (0, sha256(int8send(67108865) || 'x'::bytea), 67108865, 'x')";
    let sql = Staged::new("run", 0, 1).sql() + body;
    let error = crate::staging::ship(&mut writer, &sql).unwrap_err();
    assert!(error.contains("larger than 64 MiB"), "{error}");
    assert_eq!(ship_one(&mut writer, &Staged::new("run", 0, 1)).unwrap(), "shipped");
}
